"""What the documentation site needs beside Markdown, called by MkDocs (see mkdocs.yml).

The command line reference is made from the commands themselves at build time. Docstrings are numpydoc with Sphinx's
roles, which become links and plain characters. At the end, pages that would ask another host for anything are an error.
"""

from __future__ import annotations

import re
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Any

import griffe
import typer
from mkdocs.exceptions import PluginError

COMMANDS = "<!-- every command, made by tools/docs_hooks.py -->"
ROLE = re.compile(r":(class|func|meth|mod|attr|exc|math):`~?([^`]+)`")
SYMBOLS = {
    r"\circ": "∘",
    r"\hat p": "p̂",
    r"\propto": "∝",
    r"\rho": "ρ",
    r"\tfrac12": "½",
    r"\sum": "Σ",
    r"\max": "max",
    r"\lVert": "‖",
    r"\rVert": "‖",
    r"\,": " ",
}
PUBLIC = ("DeepSep", "TSVM", "LabeledFold", "SurveySegments", "for_table", "load", "method", "methods", "save")
ELSEWHERE = re.compile(r"""<(?:script|img|iframe|source|link)\b[^>]*?\s(?:src|href)=["']?(?:https?:)?//[^>]*>""", re.I)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Put the reference of the commands where its page asks for it."""
    return markdown.replace(COMMANDS, reference()) if page.file.src_uri == "cli.md" else markdown


def reference() -> str:
    """Return every command with its arguments and options, as Markdown."""
    from deepsep.cli import app

    group = typer.main.get_command(app)
    above = group.context_class(group, info_name="deepsep", **group.context_settings)
    parts = []
    for name, command in group.commands.items():
        context = command.context_class(command, info_name=name, parent=above)
        text, _, example = _paragraphs(command.help).partition("Example: ")
        arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
        usage = " ".join(["deepsep", name, "[OPTIONS]", *(str(argument.metavar) for argument in arguments)])
        parts += [f"## {name}", "", text.strip(), "", "```text", usage, "```", ""]
        if example:
            parts += ["For example:", "", "```bash", example.strip(), "```", ""]
        parts += ["| argument or option | what it is |", "|---|---|"]
        parts += [f"| `{argument.metavar}` | {_cell(argument.help)} |" for argument in arguments]
        for option in command.get_params(context):
            record = None if option in arguments else option.get_help_record(context)
            if record is not None:
                parts.append(f"| {_names(record[0])} | {_cell(record[1])} |")
        parts.append("")
    return "\n".join(parts)


def _paragraphs(text: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))


def _names(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _cell(text: str | None) -> str:
    """Return the help of an option as a cell; what looks like HTML or a column's end stays text."""
    plain = " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;")
    return re.sub(r"\[(default: .*?|required)\]", r"*\1*", plain)


class PlainRoles(griffe.Extension):
    """Turn Sphinx's roles in docstrings into links within the reference, code, and plain characters.

    The docstring of a method is the complete one, with the settings and attributes of its bases.
    """

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object that was loaded."""
        if obj.docstring is not None:
            if isinstance(obj, griffe.Class) and any(
                each.callable_path.endswith("settings") for each in obj.decorators
            ):
                made = getattr(import_module(obj.module.path), obj.name)
                obj.docstring.value = cleandoc(made.__doc__)
            obj.docstring.value = ROLE.sub(_role, obj.docstring.value)


def _role(found: re.Match[str]) -> str:
    role, text = found.groups()
    if role == "math":
        for symbol, plain in SYMBOLS.items():
            text = text.replace(symbol, plain)
        text = re.sub(r"\^\{(.*?)\}", r"^(\1)", text)
        return f"*{re.sub(r'[{}]', '', text)}*"
    name = text.rpartition(".")[2]
    return f"[`{name}`][deepsep.{name}]" if name in PUBLIC else f"`{name}`"


def on_post_build(*, config: Any, **_: Any) -> None:
    """Raise if a page takes a script, a style, a font or a picture from elsewhere: the site must work offline."""
    folder = Path(config["site_dir"])
    asked = [
        f"{file.relative_to(folder)}: {found}"
        for file in sorted(folder.rglob("*.html"))
        for found in ELSEWHERE.findall(file.read_text(encoding="utf-8"))
        if 'rel="canonical"' not in found
    ]
    if asked:
        raise PluginError("pages ask other hosts for files:\n  " + "\n  ".join(asked))
