"""Preprocesses a source: decides conditions, expands macros and removes comments, but keeps line numbers."""

import re
from collections.abc import Callable, Iterator

_PIECE = re.compile(
    r"""
      (?P<comment> //(?:\\\n|[^\n])* | /\*.*?(?:\*/|(?P<endless>\Z)) )
    | (?P<directive> \#(?: \\\n | /\*.*?(?:\*/|\Z) | (?!//)[^\n] )* )
    | (?P<text> R"(?P<mark>[^\s()\\"]{0,16})\(.*?(?:\)(?P=mark)"|\Z) | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)+' )
    | (?P<number> \.?[0-9](?:[eEpP][+-]|'[0-9a-fA-F]|[0-9a-zA-Z_.])* )
    | (?P<pointers> new\s+[\w:]+\s*\*[\s*]*(?=\[) )  # the grammar knows no arrays of pointers behind new
    | (?P<name> [^\W\d]\w* )
    """,
    re.VERBOSE | re.DOTALL,
)
_DEEPEST = 20  # macros in macros
_LONGEST = 1 << 20  # characters that macros may become

Refuse = Callable[[str, int], None]  # what is not understood, and its line


class Preprocessor:
    """Only macros without parameters are expanded. refuse: called with what is not understood."""

    def __init__(self, refuse: Refuse) -> None:
        self._refuse = refuse
        self._macros: dict[str, str] = {}
        self._taken = [True]  # for each condition around the present line: whether the compiler sees its branch
        self._left = _LONGEST

    def run(self, text: str) -> str:
        return "".join(self._pieces(text.replace("\r\n", "\n")))

    def _pieces(self, text: str) -> Iterator[str]:
        end, line = 0, 1
        for match in _PIECE.finditer(text):
            between, piece, end = text[end : match.start()], match[0], match.end()
            line += between.count("\n")
            is_taken = self._taken[-1]
            yield between if is_taken else "\n" * between.count("\n")
            if match["endless"] is not None:
                self._refuse("a comment that never ends", line)
            if match["directive"]:
                self._directive(piece, line)
            if is_taken and (match["text"] or match["number"]):
                yield piece
            elif is_taken and match["name"]:
                yield self._expanded(piece, line) if piece in self._macros else piece
            else:
                yield ("new pointer" if is_taken and match["pointers"] else " ") + "\n" * piece.count("\n")
            line += piece.count("\n")
        yield text[end:] if self._taken[-1] else ""
        if len(self._taken) > 1:
            self._refuse("a condition without #endif", line)

    def _directive(self, text: str, line: int) -> None:
        text = re.sub(r"\\\n|/\*.*?(?:\*/|\Z)", " ", text, flags=re.DOTALL).strip()
        word, _, rest = text[1:].strip().partition(" ")
        is_taken, rest = self._taken[-1], rest.strip()
        match word:
            case "ifdef" | "ifndef":
                self._taken.append(is_taken and (rest in self._macros) == (word == "ifdef"))
            case "if":
                if rest not in {"0", "1"} and is_taken:
                    self._refuse(text, line)
                self._taken.append(is_taken and rest != "0")
            case "else" if len(self._taken) > 1:
                self._taken[-1] = self._taken[-2] and not self._taken[-1]
            case "endif" if len(self._taken) > 1:
                self._taken.pop()
            case "define" if is_taken:
                name = re.match(r"[^\W\d]\w*(?!\w|\()", rest)
                if name is not None:
                    self._macros[name[0]] = rest[name.end() :].strip()
            case "undef" if is_taken:
                self._macros.pop(rest, None)
            case "include" | "pragma" | "line" | "define" | "undef" | "":
                pass
            case _ if is_taken or word == "elif":
                self._refuse(text, line)

    def _expanded(self, name: str, line: int, outer: tuple[str, ...] = ()) -> str:
        """What a macro becomes. A macro in itself stays a name, as in C++."""

        def replaced(match: re.Match[str]) -> str:
            inner = match[0]
            is_macro = match["name"] and inner in self._macros and inner not in names
            return self._expanded(inner, line, names) if is_macro else inner

        names = (*outer, name)
        if len(outer) >= _DEEPEST or self._left < 0:
            if self._left >= 0:
                self._refuse(f"the macro {outer[0]} is nested too deep", line)
            self._left = -1
            return ""
        value = self._macros[name]
        self._left -= len(value) + 1
        if self._left < 0:
            self._refuse(f"macros become more than {_LONGEST:,} characters", line)
        return _PIECE.sub(replaced, value)
