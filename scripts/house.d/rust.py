"""A reader of Rust sources that is good enough to count: tokens, functions, modules, imports.

Strings and comments are dropped first, so that braces and names in them mislead nobody. Macros are read as the
tokens they are given. What is compiled for tests alone is left out.
"""

import dataclasses
import functools
import posixpath
import re

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*)
    |(?P<raw>b?r(?P<hashes>\#*)"|c?r(?P<hashes2>\#*)")
    |(?P<string>[bc]?"(?:[^"\\]|\\.)*")
    |(?P<char>b?'(?:[^'\\\n]|\\(?:x[0-9a-fA-F]{2}|u\{[0-9a-fA-F_]+\}|.))')
    |(?P<lifetime>'[A-Za-z_]\w*)
    |(?P<number>\d[\w]*(?:\.\d[\w]*)?)
    |(?P<name>(?:r\#)?[A-Za-z_]\w*)
    |(?P<joined>::|->|=>|\.\.=?)
    |(?P<other>[^\s])""",
    re.X | re.S,
)


@dataclasses.dataclass
class Token:
    text: str
    line: int


@functools.lru_cache(maxsize=None)
def tokens(text):
    """Tokens of a file; a literal becomes the token `""`."""
    found, at, line, counted = [], 0, 1, 0
    while True:
        match = TOKEN.search(text, at)
        if not match:
            return found
        start, at = match.span()
        line += text.count("\n", counted, start)
        counted = start
        kind = match.lastgroup
        if match.group("comment") == "/*":
            depth, at = 1, start + 2
            while depth and (mark := re.compile(r"/\*|\*/").search(text, at)):
                depth += 1 if mark.group() == "/*" else -1
                at = mark.end()
            continue
        if match.group("comment"):
            continue
        if match.group("raw") is not None:
            end = text.find('"' + (match.group("hashes") or match.group("hashes2") or ""), at)
            at = len(text) if end < 0 else end + 1 + len(match.group("hashes") or match.group("hashes2") or "")
            found.append(Token('""', line))
        elif kind in ("string", "char"):
            found.append(Token('""', line))
        elif kind != "comment":
            found.append(Token(match.group().removeprefix("r#"), line))


@dataclasses.dataclass
class Function:
    """One function with a body; `owner` is the type of its `impl` or the name of its trait."""

    name: str
    owner: str
    module: tuple
    file: str
    line: int
    end: int
    public: bool
    # Part of a trait or of its implementation: called through the trait.
    of_trait: bool
    # Indices of the tokens of its signature and of its body.
    begin: int = 0
    body: int = 0
    last: int = 0

    def path(self, crate):
        return "::".join([crate, *self.module, *([self.owner] if self.owner else []), self.name])


@dataclasses.dataclass
class File:
    """What one source file holds, without what is compiled for tests alone."""

    path: str
    module: tuple
    tokens: list
    functions: list
    # Names of modules declared here in files of their own, as (inner modules, name, file by `#[path]`).
    modules: list
    # Imports and paths, as (inner modules, path, exported name or None).
    paths: list
    # Names defined here.
    defined: set
    # Lines of items for tests alone, as (first, last).
    test_lines: list


def is_test(attribute):
    """Whether an attribute leaves an item to tests: `#[test]`, `#[cfg(test)]`, `#[cfg(all(test, …))]`."""
    words = [token.text for token in attribute]
    if words[:1] == ["test"] or words[-1:] == ["bench"]:
        return True
    return words[:3] == ["cfg", "(", "test"] or words[:5] == ["cfg", "(", "all", "(", "test"]


CLOSING = {"(": ")", "[": "]", "{": "}"}


def matching(items, at):
    """Index of the bracket that closes the one at `at`."""
    depth = 0
    for index in range(at, len(items)):
        text = items[index].text
        if text in ("(", "[", "{"):
            depth += 1
        elif text in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return index
    return len(items) - 1


def skip_generics(items, at):
    """Index after `<…>` at `at`; `at` itself if there are none."""
    if at >= len(items) or items[at].text != "<":
        return at
    depth = 0
    while at < len(items):
        if items[at].text == "<":
            depth += 1
        elif items[at].text == ">":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return at


def read(path, module, text):
    """Reads one file that is the module `module` of its crate."""
    file = File(path, module, tokens(text), [], [], [], set(), [])
    _items(file, 0, len(file.tokens), (), "", False)
    return file


ITEM_WORDS = {"struct", "enum", "union", "trait", "type", "const", "static", "fn", "mod", "macro_rules"}


def _items(file, at, end, inner, owner, of_trait):
    """Walks items from `at` to `end`: a file, an inner module, a trait or an implementation, a function's body."""
    items = file.tokens
    public, test, by_path, start = False, False, None, None
    while at < end:
        text = items[at].text
        if start is None:
            start = at
        if text == "#" and at + 1 < end and items[at + 1].text in ("[", "!"):
            opening = at + 1 if items[at + 1].text == "[" else at + 2
            closing = matching(items, opening)
            attribute = items[opening + 1 : closing]
            if items[at + 1].text == "[":
                test = test or is_test(attribute)
            at = closing + 1
            continue
        if text == "pub":
            public = True
            at += 1
            if at < end and items[at].text == "(":
                at = matching(items, at) + 1
            continue
        if text == "use":
            stop = _until(items, at, end, ";")
            if not test:
                _use_tree(file, items[at + 1 : stop], inner, public)
            at = _done(file, test, start, stop)
        elif text == "mod" and at + 2 < end and items[at + 2].text == ";":
            file.modules.append((inner, items[at + 1].text, test))
            at = _done(file, test, start, at + 2)
        elif text == "mod" and at + 2 < end and items[at + 2].text == "{":
            closing = matching(items, at + 2)
            if not test:
                file.defined.add(items[at + 1].text)
                _items(file, at + 3, closing, (*inner, items[at + 1].text), "", False)
            at = _done(file, test, start, closing)
        elif text in ("impl", "trait") and _begins_item(items, at):
            opening = _until(items, at, end, "{", ";")
            closing = matching(items, opening) if items[opening].text == "{" else opening
            if not test:
                name, implements = _head(items, at, opening)
                if text == "trait":
                    file.defined.add(name)
                _paths(file, items[at:opening], inner)
                _items(file, opening + 1, closing, inner, name, text == "trait" or implements)
            at = _done(file, test, start, closing)
        elif text == "fn" and at + 1 < end and re.match(r"[A-Za-z_]", items[at + 1].text):
            opening = _until(items, at, end, "{", ";")
            closing = matching(items, opening) if items[opening].text == "{" else opening
            if not test:
                name = items[at + 1].text
                if not owner:
                    file.defined.add(name)
                _paths(file, items[at:closing], inner)
                if closing > opening:
                    module = (*file.module, *inner)
                    file.functions.append(
                        Function(
                            name, owner, module, file.path, items[at].line, items[closing].line, public, of_trait, at, opening, closing
                        )
                    )
                    _nested(file, opening + 1, closing, inner)
            at = _done(file, test, start, closing)
        elif text in ("const", "unsafe", "async", "extern", "default") and at + 1 < end and items[at + 1].text in (
            "fn", "unsafe", "async", "extern", "impl", "trait", '""', "mod",
        ):
            at += 1
            continue
        elif text in ("struct", "enum", "union", "type", "const", "static", "macro_rules"):
            named = at + 1 + (items[at + 1].text in ("!", "mut"))
            stop = _item_end(items, at, end, text)
            if not test:
                if not owner:
                    file.defined.add(items[named].text)
                _paths(file, items[at + 1 : stop], inner)
            at = _done(file, test, start, stop)
        else:
            # A macro's call, a `;`, or what is none of an item's beginnings.
            stop = at
            if at + 1 < end and items[at + 1].text == "!":
                opening = _until(items, at, end, "{", "(", "[")
                stop = matching(items, opening)
                if not test:
                    _paths(file, items[at:stop], inner)
            at = _done(file, test, start, stop)
        public, test, start = False, False, None


def _nested(file, at, end, inner):
    """Imports and functions inside a function's body."""
    items = file.tokens
    while at < end:
        text = items[at].text
        if text == "fn" and at + 1 < end and re.match(r"[A-Za-z_]", items[at + 1].text):
            opening = _until(items, at, end, "{", ";")
            closing = matching(items, opening)
            file.functions.append(
                Function(
                    items[at + 1].text, "", (*file.module, *inner), file.path, items[at].line, items[closing].line, False, False,
                    at, opening, closing,
                )
            )
        at += 1


def _done(file, test, start, stop):
    if test:
        file.test_lines.append((file.tokens[start].line, file.tokens[min(stop, len(file.tokens) - 1)].line))
    return stop + 1


def _begins_item(items, at):
    return at == 0 or items[at - 1].text in ("}", ";", "]", "{", "pub", "unsafe", ")", "default")


def _until(items, at, end, *wanted):
    """Index of the next of `wanted` outside brackets."""
    while at < end:
        text = items[at].text
        if text in wanted:
            return at
        if text in ("(", "[", "{"):
            at = matching(items, at)
        at += 1
    return end - 1


def _item_end(items, at, end, kind):
    if kind in ("struct", "union", "enum"):
        stop = _until(items, at, end, "{", ";")
        return matching(items, stop) if items[stop].text == "{" else stop
    if kind == "macro_rules":
        opening = _until(items, at, end, "{", "(", "[")
        return matching(items, opening)
    return _until(items, at, end, ";")


def _head(items, at, opening):
    """Name of the type or trait at `impl`/`trait`, and whether it is an implementation of a trait."""
    if items[at].text == "trait":
        return items[at + 1].text, False
    first = skip_generics(items, at + 1)
    depth, split = 0, None
    stop = opening
    for index in range(first, opening):
        text = items[index].text
        if text in ("<", "(", "["):
            depth += 1
        elif text in (">", ")", "]"):
            depth -= 1
        elif depth == 0 and text == "for" and split is None:
            split = index
        elif depth == 0 and text == "where":
            stop = index
            break
    begin = first if split is None else split + 1
    name, depth = "", 0
    for token in items[begin:stop]:
        if token.text in ("<", "("):
            depth += 1
        elif token.text in (">", ")"):
            depth -= 1
        elif (depth == 0 or not name) and re.match(r"[A-Za-z_]\w*$", token.text) and token.text not in ("dyn", "mut", "const"):
            name = token.text
    return name, split is not None


def _use_tree(file, items, inner, public):
    """`a::{b, c as d, e::*}` as single paths."""

    def walk(at, end, prefix):
        path = list(prefix)
        while at < end:
            text = items[at].text
            if text == "{":
                closing = matching(items, at)
                begin = at + 1
                while begin < closing:
                    stop = _until(items, begin, closing + 1, ",", "}")
                    walk(begin, stop, path)
                    begin = stop + 1
                return
            if text == "as":
                add(path, items[at + 1].text)
                return
            if text != "::":
                path.append(text)
            at += 1
        add(path, path[-2] if path and path[-1] == "self" and len(path) > 1 else path[-1] if path else "")

    def add(path, name):
        if path[-1:] == ["self"]:
            path = path[:-1]
        file.paths.append((inner, tuple(path), name, public))

    walk(0, len(items), ())


def _paths(file, items, inner):
    """Paths written out in code: `crate::a::b`, `super::c`, `name::d`."""
    at = 0
    while at < len(items):
        if items[at].text == "use":
            stop = _until(items, at, len(items), ";")
            _use_tree(file, items[at + 1 : stop], inner, False)
            at = stop + 1
            continue
        if re.match(r"[A-Za-z_]\w*$", items[at].text) and at + 1 < len(items) and items[at + 1].text == "::":
            path = [items[at].text]
            at += 1
            while at + 1 < len(items) and items[at].text == "::" and re.match(r"[A-Za-z_]\w*$", items[at + 1].text):
                path.append(items[at + 1].text)
                at += 2
            file.paths.append((inner, tuple(path), None, False))
            continue
        at += 1


def module_file(path, name):
    """The two places where `mod name;` of the file `path` may have its file."""
    folder, base = posixpath.split(path)
    own = folder if base in ("mod.rs", "lib.rs", "main.rs") else posixpath.join(folder, base.removesuffix(".rs"))
    return posixpath.join(own, f"{name}.rs"), posixpath.join(own, name, "mod.rs")


class Crate:
    """All files that one crate root (`lib.rs` or `main.rs`) reaches, tests apart."""

    def __init__(self, name, root, texts):
        self.name, self.root = name, root
        self.files, self.by_module, self.test_files = {}, {}, set()
        self._load(root, (), texts)

    def _load(self, path, module, texts):
        file = read(path, module, texts[path])
        self.files[path] = file
        self.by_module[module] = path
        for inner, name, test in file.modules:
            base = path
            if inner:
                folder = posixpath.dirname(module_file(path, inner[0])[1])
                base = posixpath.join(folder, *inner[1:], "mod.rs")
            for place in module_file(base, name):
                if place not in texts:
                    continue
                if test:
                    self._leave_out(place, texts)
                elif place not in self.files:
                    self._load(place, (*module, *inner, name), texts)

    def _leave_out(self, path, texts):
        """A file that only tests have, and those in its folder."""
        self.test_files.add(path)
        folder = path.removesuffix("mod.rs") if path.endswith("/mod.rs") else path.removesuffix(".rs") + "/"
        self.test_files |= {other for other in texts if other.startswith(folder)}

    def functions(self):
        return [function for file in self.files.values() for function in file.functions]
