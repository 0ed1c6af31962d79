"""A real browser that opens a page, runs a script in it, and gives what is then there."""

from __future__ import annotations

import html
import re
import shutil
import subprocess

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")


def run_in(page, script, folder, *, width=1100, height=800, dark=False):
    """What a script returns, as text, run at the end of a page; and what the browser complained of on the way.

    Args:
        page: its HTML.
        script: the body of a function.
        folder: for the browser's own files.
        width, height: of the window, in pixels.
        dark: whether the reader prefers a dark page.
    """
    answer = "document.body.dataset.answer = String((() => {" + script + "})());"
    path = folder / "page.html"
    path.write_text(page.replace("</body>", f"<script>{answer}</script></body>"))
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}",
    ]
    options += [f"--window-size={width},{height}", "--enable-logging=stderr", "--v=0", "--dump-dom"]
    options += ["--blink-settings=preferredColorScheme=0"] if dark else []
    done = subprocess.run([BROWSER, *options, path.as_uri()], capture_output=True, text=True, check=True, timeout=120)
    (found,) = re.findall(r'data-answer="([^"]*)"', done.stdout)
    complaints = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return html.unescape(found), complaints
