"""What can be counted by reading: lines, crates, circles of imports, private functions with a single caller."""

import posixpath
import re
import subprocess

import rust

LANGUAGES = {
    ".rs": "Rust", ".py": "Python", ".ts": "TypeScript", ".js": "JavaScript", ".mjs": "JavaScript", ".css": "CSS", ".html": "HTML",
    ".c": "C", ".h": "C", ".cpp": "C++", ".hpp": "C++", ".go": "Go", ".md": "Markdown", ".toml": "TOML", ".sh": "shell",
}
TEST_FOLDERS = {"tests", "test", "e2e", "benches", "bench", "examples", "fuzz", "interop", "compare"}
# Crates that others depend on for their tests alone.
TEST_FOLDERS |= {"netsim", "rtc-test", "c-test", "sim"}


class Tree:
    """The texts of all files under version control, of the work tree or of a revision."""

    def __init__(self, root, revision=None):
        self.texts = {}
        if revision is None:
            names = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout
            for name in names.decode().split("\0"):
                self.add(name, lambda: (root / name).read_bytes() if (root / name).is_file() else None)
            return
        names = subprocess.run(["git", "ls-tree", "-rz", "--name-only", revision], cwd=root, capture_output=True, check=True).stdout
        names = [name for name in names.decode().split("\0") if interesting(name)]
        asked = "".join(f"{revision}:{name}\n" for name in names).encode()
        answer = subprocess.run(["git", "cat-file", "--batch"], cwd=root, input=asked, capture_output=True, check=True).stdout
        at = 0
        for name in names:
            end = answer.index(b"\n", at)
            size = int(answer[at:end].split()[-1])
            body = answer[end + 1 : end + 1 + size]
            at = end + 1 + size + 1
            self.add(name, lambda: body)

    def add(self, name, read):
        if interesting(name):
            body = read()
            if body is not None:
                self.texts[name] = body.decode(errors="replace")

    def packages(self):
        """Members of the workspace, as folder by name; tools with a lock file of their own are none."""
        found = {}
        for name, text in self.texts.items():
            folder, base = posixpath.split(name)
            if base == "Cargo.toml" and re.fullmatch(r"(crates|libs)/[^/]+", folder):
                found[re.search(r'^name\s*=\s*"([^"]+)"', text, re.M).group(1)] = folder
        return dict(sorted(found.items()))

    def crates(self):
        """Every crate of the packages: a library and a binary of one package are two."""
        for package, folder in self.packages().items():
            for root in self.texts:
                if re.fullmatch(rf"{re.escape(folder)}/src/(lib\.rs|main\.rs|bin/[^/]+\.rs)", root):
                    yield package, rust.Crate(package.replace("-", "_"), root, self.texts)


def interesting(name):
    return posixpath.splitext(name)[1] in LANGUAGES or posixpath.basename(name) == "Makefile"


class Count:
    """All figures of one tree."""

    def __init__(self, tree):
        self.tree = tree
        self.crates = list(tree.crates())
        self.lines = self.count_lines()
        self.circles = [(package, files) for package, crate in self.crates for files in circles(crate)]
        self.single = {}
        for package, crate in self.crates:
            once, private = single_use(crate)
            before = self.single.get(package, ([], 0, 0))
            self.single[package] = (before[0] + once, before[1] + private, before[2] + len(crate.functions()))

    @property
    def circle_files(self):
        return sum(len(files) for _, files in self.circles)

    def single_use(self):
        """Private functions with one caller; all private functions; all functions."""
        return tuple(sum(column) for column in zip(*((len(once), private, every) for once, private, every in self.single.values())))

    def explain(self):
        """Prints every circle, and what each crate and language adds to the figures."""
        for package, files in self.circles:
            print(f"circle of {len(files)} files in {package}:", *files, sep="\n  ")
        for package, (once, private, every) in self.single.items():
            print(f"{package}: {len(once)} of {private} private functions have one caller, of {every} functions in all")
            for function in once:
                print(f"  {function.file}:{function.line} {function.name}")
        for (language, test), (code, comments, blank) in sorted(self.lines.items()):
            print(f"{language}{' of tests' if test else ''}: {code} lines, {comments} of comments, {blank} blank")

    def count_lines(self):
        """Lines by (language, product or test) as [code, comment, blank]."""
        test_files, test_lines = set(), {}
        for _, crate in self.crates:
            test_files |= crate.test_files
            for file in crate.files.values():
                test_lines[file.path] = file.test_lines
        found = {}
        for name, text in self.tree.texts.items():
            language = LANGUAGES.get(posixpath.splitext(name)[1])
            if not language or re.match(r".*(package-lock\.json|\.min\.js)$", name):
                continue
            test = name in test_files or bool(TEST_FOLDERS & set(name.split("/")[:-1]))
            spans = test_lines.get(name, [])
            kinds = line_kinds(language, text)
            for number, kind in enumerate(kinds, 1):
                of_test = test or any(first <= number <= last for first, last in spans)
                found.setdefault((language, of_test), [0, 0, 0])[kind] += 1
        return found


def line_kinds(language, text):
    """0 code, 1 comment, 2 blank, for every line."""
    lines = text.splitlines()
    if language == "Rust":
        code = {token.line for token in rust.tokens(text)}
        inside = _string_lines(text)
        return [0 if number in code or number in inside else 1 if line.strip() else 2 for number, line in enumerate(lines, 1)]
    mark = {"Python": "#", "TOML": "#", "shell": "#", "CSS": "/*", "C": "//", "C++": "//", "Go": "//"}.get(language, "//")
    return [2 if not line.strip() else 1 if line.strip().startswith((mark, "*")) and language != "Markdown" else 0 for line in lines]


def _string_lines(text):
    """Lines that lie inside a literal that goes over several."""
    found = set()
    for match in rust.TOKEN.finditer(text):
        if match.lastgroup == "string" and "\n" in match.group():
            first = text.count("\n", 0, match.start()) + 1
            found |= set(range(first, first + match.group().count("\n") + 1))
    return found


# Imports ------------------------------------------------------------------------------------------------------------


def folder_of(crate, path):
    """The folder of a module: `a.rs` beside `a/` is a part of `a/`."""
    folder, base = posixpath.split(path)
    inner = posixpath.join(folder, base.removesuffix(".rs"))
    if base not in ("mod.rs", "lib.rs", "main.rs") and any(other.startswith(inner + "/") for other in crate.files):
        return inner
    return folder


def exports(crate):
    """Names that a module has from elsewhere by `use`, as {(module, name): path from the crate's root or None}."""
    found = {}
    for file in crate.files.values():
        for inner, path, name, public in file.paths:
            if name is not None:
                module = (*file.module, *inner)
                found.setdefault(module, {})[name] = (path, public)
    return found


def imports(crate):
    """Files that each file takes something from, by the file that defines it: re-exports are followed."""
    names = exports(crate)
    defined = {file.module: file for file in crate.files.values()}

    def absolute(module, path):
        """The path from the crate's root, or None for one that leads out of the crate."""
        if not path:
            return None
        head, *rest = path
        if head in ("crate", "$"):
            return tuple(rest)
        if head == "self":
            return (*module, *rest)
        if head == "super":
            base = list(module)
            rest = list(path)
            while rest and rest[0] == "super":
                base = base[:-1]
                rest = rest[1:]
            return (*base, *rest)
        if (*module, head) in defined:
            return (*module, *path)
        return None

    def resolve(path, depth=0):
        """The file that defines what the path names."""
        if depth > 8:
            return None
        for length in range(len(path), -1, -1):
            if path[:length] not in defined:
                continue
            file, rest = defined[path[:length]], path[length:]
            if not rest or rest[0] == "*":
                return file.path if length or rest else None
            if rest[0] not in file.defined:
                for candidate, name in ((rest[0], rest[0]),):
                    via = names.get(path[:length], {}).get(candidate)
                    if via:
                        onward = absolute(path[:length], via[0])
                        return resolve((*onward, *rest[1:]), depth + 1) if onward is not None else None
                # From a `use …::*`.
                via = names.get(path[:length], {}).get("*")
                if via and (onward := absolute(path[:length], via[0][:-1])) is not None and onward in defined:
                    return resolve((*onward, *rest), depth + 1)
            return file.path
        return None

    edges = {path: set() for path in crate.files}
    for file in crate.files.values():
        for inner, path, name, public in file.paths:
            # What is handed on is not used here.
            if name is not None and public:
                continue
            module = (*file.module, *inner)
            target = absolute(module, path)
            if target is None and name is None:
                # `Name::function` or `name::function` of something imported is an import already.
                continue
            if target is None:
                continue
            other = resolve(target)
            if other and other != file.path:
                edges[file.path].add(other)
    return edges


def circles(crate):
    """Groups of files of more than one folder, each of which reaches all others by imports."""
    edges = imports(crate)
    found = []
    for group in components(edges):
        if len({folder_of(crate, path) for path in group}) > 1:
            found.append(sorted(group))
    return found


def components(edges):
    """Strongly connected components (Tarjan), without recursion."""
    index, low, stack, on_stack, found, counter = {}, {}, [], set(), [], 0
    for start in edges:
        if start in index:
            continue
        work = [(start, iter(sorted(edges[start])))]
        index[start] = low[start] = counter
        counter += 1
        stack.append(start)
        on_stack.add(start)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = counter
                    counter += 1
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(sorted(edges[other]))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while True:
                        other = stack.pop()
                        on_stack.discard(other)
                        group.append(other)
                        if other == node:
                            break
                    found.append(group)
    return found


# Functions with one
# caller ------------------------------------------------------------------------------------------


def single_use(crate):
    """Private functions that are called in one place, and the number of all private functions."""
    functions = crate.functions()
    private = [function for function in functions if not function.public and not function.of_trait and function.name != "main"]
    by_name = {}
    for function in functions:
        by_name.setdefault(function.name, []).append(function)
    calls = {}
    for file in crate.files.values():
        for name, kind, qualifier, owner in uses(file, by_name):
            candidates = attribute(by_name[name], file, kind, qualifier, owner)
            for function in candidates:
                calls[id(function)] = calls.get(id(function), 0) + 1
    return [function for function in private if calls.get(id(function), 0) == 1], len(private)


def uses(file, by_name):
    """Calls and mentions of known functions: (name, kind, qualifier, type of the implementation it stands in)."""
    items = file.tokens
    spans = sorted(((f.begin, f.last, f.owner) for f in file.functions), key=lambda span: span[0])
    tests = file.test_lines
    imported = set()
    for index, token in enumerate(items):
        if token.text == "use":
            at = index
            while at < len(items) and items[at].text != ";":
                imported.add(at)
                at += 1
    for index, token in enumerate(items):
        if token.text not in by_name or index in imported:
            continue
        before = items[index - 1].text if index else ""
        after = items[index + 1].text if index + 1 < len(items) else ""
        if before == "fn" or any(first <= token.line <= last for first, last in tests):
            continue
        called = after == "(" or after == "::" and index + 2 < len(items) and items[index + 2].text == "<"
        owner = next((span[2] for span in reversed(spans) if span[0] <= index <= span[1] and span[2]), "")
        if before == ".":
            if called:
                receiver = items[index - 2].text if index > 1 else ""
                bare = receiver == "self" and (index < 3 or items[index - 3].text != ".")
                yield token.text, "self" if bare else "method", None, owner
        elif before == "::":
            yield token.text, "path", items[index - 2].text, owner
        elif called or (before in ("(", ",", "=", "=>", "[") and after in (")", ",", ";", "]")):
            yield token.text, "bare", None, owner


def attribute(candidates, file, kind, qualifier, owner):
    """The functions that a call may mean."""
    if kind == "self":
        own = [f for f in candidates if f.owner == owner]
        return own or [f for f in candidates if f.owner]
    if kind == "method":
        return [f for f in candidates if f.owner]
    if kind == "path":
        wanted = owner if qualifier == "Self" else qualifier
        if wanted == ">":
            return candidates
        return [f for f in candidates if f.owner == wanted or not f.owner and (f.module[-1:] == (wanted,) or wanted in ("self", "super", "crate"))]
    near = [f for f in candidates if not f.owner and f.file == file.path]
    return near or [f for f in candidates if not f.owner]
