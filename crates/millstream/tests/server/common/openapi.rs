//! Checks JSON against the schemas of the server's own OpenAPI document.
//!
//! Knows the keywords the document uses and fails on one it does not know, so that nothing is passed unread.

use serde_json::Value;

/// Where `value` departs from the 200 response that `document` describes for GET `path`; empty when
/// it does not.
pub(crate) fn departures(document: &Value, path: &str, value: &Value) -> Vec<String> {
    let schema = &document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
    assert!(schema.is_object(), "the OpenAPI document has no schema for GET {path}");
    let mut found = Vec::new();
    check(document, schema, value, "$", &mut found);
    found
}

fn check(document: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let Some(keywords) = schema.as_object() else {
        assert!(schema.as_bool() == Some(true), "{at}: schema is neither an object nor true: {schema}");
        return;
    };
    for (keyword, rule) in keywords {
        match keyword.as_str() {
            "$ref" => check(document, resolve(document, rule), value, at, found),
            "type" => {
                let names = rule.as_array().cloned().unwrap_or_else(|| vec![rule.clone()]);
                if !names.iter().any(|name| has_type(name.as_str().expect("a type name"), value)) {
                    found.push(format!("{at}: {value} is not {rule}"));
                }
            }
            "enum" => {
                if !rule.as_array().expect("a list of values").contains(value) {
                    found.push(format!("{at}: {value} is none of {rule}"));
                }
            }
            "required" => {
                for name in rule.as_array().expect("a list of names") {
                    let name = name.as_str().expect("a name");
                    if value.is_object() && value.get(name).is_none() {
                        found.push(format!("{at}: {name} is missing"));
                    }
                }
            }
            "properties" => check_members(document, rule, value, at, found),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(document, rule, item, &format!("{at}[{index}]"), found);
                }
            }
            "minimum" => {
                if value.as_f64().is_some_and(|number| number < rule.as_f64().expect("a number")) {
                    found.push(format!("{at}: {value} is below {rule}"));
                }
            }
            "allOf" => rule
                .as_array()
                .expect("a list of schemas")
                .iter()
                .for_each(|part| check(document, part, value, at, found)),
            "oneOf" | "anyOf" => {
                let fits = |part: &&Value| {
                    let mut inner = Vec::new();
                    check(document, part, value, at, &mut inner);
                    inner.is_empty()
                };
                if !rule.as_array().expect("a list of schemas").iter().any(|part| fits(&part)) {
                    found.push(format!("{at}: {value} fits no {keyword}"));
                }
            }
            "description" | "title" | "format" | "example" | "examples" | "default" | "nullable" => {}
            other => panic!("{at}: the schema uses `{other}`, which this checker does not know"),
        }
    }
}

/// Members must have the described shape, and there may be none that is not described.
fn check_members(document: &Value, rules: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for (name, member) in value.as_object().into_iter().flatten() {
        match rules.get(name) {
            Some(rule) => check(document, rule, member, &format!("{at}.{name}"), found),
            None => found.push(format!("{at}: {name} is not described")),
        }
    }
}

fn resolve<'a>(document: &'a Value, reference: &Value) -> &'a Value {
    let text = reference.as_str().expect("a reference");
    let pointer = text.strip_prefix('#').unwrap_or_else(|| panic!("{text} points outside the document"));
    document.pointer(pointer).unwrap_or_else(|| panic!("{text} points at nothing"))
}

fn has_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("the schema uses the type `{other}`"),
    }
}
