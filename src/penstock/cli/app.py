"""Calls commands, and says what becomes of errors: a user's mistake is a sentence, a bug is a traceback."""

from __future__ import annotations

import errno
import io
import logging
import os
import re
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, Final, NoReturn, TextIO, cast

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter, UnknownOptionError

from penstock import __version__
from penstock.cli import STDIN, exit_code
from penstock.cli.overview import COMMANDS, HELP, examples, name_of
from penstock.errors import PenstockError, is_out_of_memory, reason_of
from penstock.progress import Printable, drop_output

FAILED: Final = 2
_MAX_OPTIONS: Final = 1000  # cyclopts takes the square of their number: 2 s here, a minute for 5,000
_SILENT: Final = logging.NullHandler()
_FULL: Final = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})
_PLACES: Final = frozenset(
    {errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOSPC, errno.EROFS}
    | {errno.ENAMETOOLONG, errno.ELOOP, errno.EDQUOT, errno.EFBIG, errno.EINVAL, errno.EIO}
)


def build() -> App:
    """The command line; no command's module is imported yet."""
    app = App(
        name="penstock",
        help=HELP,
        version=__version__,
        version_flags=("--version", "-V"),
        suppress_keyboard_interrupt=False,
        default_parameter=Parameter(negative=(), negative_iterable=(), show_default=_default),
        help_format="plaintext",  # markdown would take <label> for a tag
    )
    for place, text in COMMANDS.items():
        app.command(f"penstock.cli.{place}", name=name_of(place), help=text, help_epilogue=examples(name_of(place)))
    app.register_install_completion_command(add_to_startup=False)
    return app


def _default(value: Any) -> str | None:
    """A default as help shows it; None where there is nothing to be seen."""
    if value is None or value is False or value in ("", ()):
        return None
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit, with the codes that `penstock.cli.main` names.

    Names of files may hold anything: control characters are printed as Python writes them, so that no name tells the
    terminal what to do.
    """
    words = sys.argv[1:] if arguments is None else arguments
    _reopen_closed()
    warnings.filterwarnings("ignore", module=r"PIL\..*")  # what is wrong with a file is said in our words
    logging.getLogger("tifffile").addHandler(_SILENT)
    for stream in (sys.stdout, sys.stderr):  # file names may hold bytes that are no UTF-8
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if (given := sum(word.startswith("--") for word in words)) > _MAX_OPTIONS:
        _fail(f"expected at most {_MAX_OPTIONS:,} options, found {given:,}. Write settings into a TOML file.")
    words = [STDIN if word == "-" else word for word in words]  # cyclopts would take a lone hyphen for an option
    with redirect_stdout(cast("TextIO", Printable(sys.stdout))), redirect_stderr(cast("TextIO", Printable(sys.stderr))):
        _call(words)


def _call(words: list[str]) -> NoReturn:
    try:
        sys.exit(build()(words, print_error=False, exit_on_error=False))
    except CycloptsError as error:
        _fail(_usage(error))
    except PenstockError as error:
        _fail(str(error))
    except BrokenPipeError:  # the reader of a pipe has seen enough
        drop_output()
        sys.exit(0)
    except KeyboardInterrupt as error:
        print("interrupted", file=sys.stderr)
        sys.exit(exit_code(error))
    except Exception as error:
        if isinstance(error, OSError):
            _refuse_place(error)
        if not is_out_of_memory(error):
            raise
        _fail(
            f"memory: expected as much as this needs, found less ({reason_of(error)}). Train with a smaller --batch "
            "or --crop, or --set train.accumulate=N, which computes a batch in N parts. Predict with --sliding-window."
        )


def _reopen_closed() -> None:
    """Let what is printed to a closed stream go nowhere: Python has none in its place."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - as long as the process


def _refuse_place(error: OSError) -> None:
    """End with a sentence where an error is about a path, or about the room on a disk."""
    if error.errno in _PLACES and (error.filename is not None or error.errno in _FULL):
        _fail(
            f"{error.filename or 'a file, or standard output'}: expected a path that can be read and written, found "
            f"{(error.strerror or '').lower()}. Check the path, its permissions and the room on the disk."
        )


def _fail(sentence: str) -> NoReturn:
    print(f"error: {sentence}", file=sys.stderr)
    sys.exit(FAILED)


_TOO_FEW: Final = re.compile(
    r"parameter (?P<option>--\S+) requires (?P<wanted>\d+) positional arguments\. Only got (?P<got>\d+)"
)


_ELSEWHERE: Final = {
    **dict.fromkeys(("--amp", "--fp16", "--half"), "--set train.precision=bfloat16, or float16"),
    **dict.fromkeys(("--workers", "--num-workers"), "--set train.num_threads=N"),
    **dict.fromkeys(("--imgsz", "--img-size", "--image-size"), "--crop HEIGHT WIDTH"),
    **dict.fromkeys(("--gpus", "--devices"), "--device cuda, or torchrun for several"),
    "--batch-size": "--batch",
    "--learning-rate": "--lr",
}
"""What options of other tools, which no spelling leads to, are called here."""


def _usage(error: CycloptsError) -> str:
    """What is wrong with the words of a command, and where its help is."""
    command = " ".join(("penstock", *(error.command_chain or ())))
    if isinstance(error, UnknownOptionError) and (meant := _ELSEWHERE.get(error.token.keyword or "")):
        text = f"Unknown option: {error.token.keyword}. Use {meant}."
    elif isinstance(error, MissingArgumentError) and error.argument and not error.argument.tokens and not error.keyword:
        text = f"{error.argument.name} is missing."
    elif wrong := _TOO_FEW.search(" ".join(str(error).split())):
        text = f"{wrong['option']} takes {wrong['wanted']} values, but got {wrong['got']}."
    else:
        text = " ".join(str(error).split())
    return f"{command}: {text} See {command} --help."
