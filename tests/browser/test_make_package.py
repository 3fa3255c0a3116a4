"""From a table to a finished training job, all in the browser; and what a person meets on the way."""

import io
import random
import re
import time
import zipfile

import pytest
from playwright.sync_api import expect

from tests.browser.accessibility import check_accessible
from tests.browser.people import Coordinator
from tests.browser.test_accessibility import check

pytestmark = pytest.mark.usefixtures("nobody_complains")
SECONDS = 180
LEAST_ACCURACY = 0.9


def flowers(rows=150):
    """Three kinds that overlap a little, as the irises do."""
    drawn = random.Random(3)
    centres = {"setosa": (5.0, 3.4, 1.5, 0.2), "versicolor": (5.9, 2.8, 4.3, 1.3), "virginica": (6.6, 3.0, 5.6, 2.1)}
    lines = ["sepal length,sepal width,petal length,petal width,species"]
    for at in range(rows):
        kind = list(centres)[at % 3]
        values = [f"{drawn.gauss(centre, 0.3):.1f}" for centre in centres[kind]]
        lines.append(",".join([*values, kind]))
    return "\n".join(lines) + "\n"


def table(name="iris.csv", text=None):
    return {"name": name, "mimeType": "text/csv", "buffer": (text or flowers()).encode()}


@pytest.fixture
def alice(stack, chromium):
    with Coordinator(chromium, "alice") as person:
        yield person.sign_in(stack)


def upload(person, stack, file):
    page = person.page
    page.goto(f"{stack.url}/jobs/")
    page.get_by_role("link", name="Make a model", exact=True).click()
    page.locator("#source").set_input_files(file)
    page.locator("#upload").click()
    page.wait_for_url(re.compile(r"/packages/[0-9a-f-]{36}/"))
    expect(page.locator("#package-form")).to_be_visible()
    return page


def make(page):
    page.locator("#package-make").click()
    expect(page.get_by_role("heading", name="The package is ready")).to_be_visible()


def test_from_a_table_to_a_finished_job(alice, stack):
    """The acceptance of the generator: well under three minutes, with the defaults, on this device alone."""
    began = time.monotonic()
    page = upload(alice, stack, table())
    expect(page.locator("#id_label")).to_have_value("species")
    expect(page.locator("#sizes")).to_contain_text("Weights, about")
    make(page)
    page.locator("#package-start").click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}/$"), timeout=60_000)
    alice.start(active=1)
    alice.wait_until_completed(SECONDS)
    took = time.monotonic() - began
    assert took < SECONDS, took
    newest = page.locator("#panel-checkpoints tbody tr").first
    held_out = newest.locator("td[data-label='Accuracy, validation']")
    expect(held_out).to_have_text(re.compile(r"^(0\.\d+|1)$"), timeout=60_000)
    accuracy = float(held_out.inner_text())
    assert accuracy >= LEAST_ACCURACY
    page.get_by_role("link", name="Try it").click()
    expect(page.locator("#ask-inputs")).to_contain_text("sepal length, sepal width, petal length, petal width")
    page.get_by_label("Values").fill("5 3.4 1.5 0.2")
    page.locator("#ask-go").click()
    expect(page.locator("#play-status")).to_contain_text("Class: setosa.")
    expect(page.locator("#ask-answer")).to_contain_text("versicolor")
    print(f"from a table to a finished job in {took:.0f} s, accuracy {accuracy:g} on what was held out")


def test_the_package_is_downloaded_as_a_zip(alice, stack):
    page = upload(alice, stack, table("download me.csv"))
    make(page)
    with page.expect_download() as downloading:
        page.locator("#package-download").click()
    assert downloading.value.suggested_filename == "download me-package.zip"
    with zipfile.ZipFile(io.BytesIO(downloading.value.path().read_bytes())) as archive:
        names = archive.namelist()
        assert archive.testzip() is None
    assert names[:2] == ["model.wasm", "manifest.json"] and names[-1].startswith("validation")
    page.get_by_role("link", name="Delete…").click()
    page.get_by_role("button", name="Delete for good").click()
    expect(page.get_by_role("status").filter(has_text="was deleted")).to_be_visible()
    assert "download me.csv" not in page.locator("main").inner_text().replace("The package of download me.csv", "")


def test_a_text_is_shown_as_its_tokens_while_the_sizes_follow_what_is_typed(alice, stack):
    lines = "".join(f"{a}+{b}={a + b}\n" for a in range(20) for b in range(20))
    page = upload(alice, stack, {"name": "sums.txt", "mimeType": "text/plain", "buffer": lines.encode()})
    expect(page.locator("#id_tokenizer")).to_have_value("bytes")
    sizes = page.locator("#sizes dd").first
    expect(sizes).to_be_visible()
    before = sizes.inner_text()
    page.locator("#id_width").fill("64")
    expect(sizes).not_to_have_text(before)
    page.locator("#id_width").fill("63")
    expect(page.locator("#sizes .problem")).to_contain_text("multiple of heads")
    page.locator("#id_width").fill("64")
    page.locator("#id_records").select_option("lines")
    page.locator("#id_endToken").fill("<end>")
    expect(page.locator("#id_merges")).to_be_hidden()
    page.locator("#id_tokenizer").select_option("bpe")
    page.locator("#id_merges").fill("30")
    expect(page.locator("#preview-stale")).to_be_visible()
    page.locator("#package-preview").click()
    expect(page.locator("#preview")).to_contain_text("joins a digit with an operator")
    expect(page.locator("#preview-stale")).to_be_hidden()
    tokens = page.locator(".tokens").first.locator("li > span:first-child")
    assert "<end>" in tokens.all_inner_texts()
    expect(page.locator("#id_merges")).to_have_value("30")
    page.locator("#id_tokenizer").select_option("characters")
    page.locator("#package-preview").click()
    expect(page.locator("#preview")).not_to_contain_text("joins a digit")
    check_accessible(page)


def test_bad_rows_are_named_and_what_was_typed_is_kept(alice, stack):
    rows = flowers().splitlines()
    rows[100] = rows[100].replace(",", ";", 1)
    rows[120] = "?," + rows[120].partition(",")[2]
    page = upload(alice, stack, table("spoilt.csv", "\n".join(rows)))
    page.locator("#id_hiddenLayers").fill("8")
    page.locator("#id_name").fill("My flowers")
    page.locator("#package-make").click()
    alert = page.get_by_role("alert").filter(has_text="The package was not made")
    expect(alert).to_contain_text("101")
    expect(alert).to_contain_text("121")
    expect(page.locator("#id_hiddenLayers")).to_have_value("8")
    expect(page.locator("#id_name")).to_have_value("My flowers")
    expect(page.locator("#package-download")).to_have_count(0)
    check_accessible(page)


def test_what_does_not_fit_is_said_beside_its_field(alice, stack):
    page = upload(alice, stack, table("fields.csv"))
    page.locator("#id_batchSize").fill("0")
    page.locator("#package-make").click()
    problem = page.locator("[data-problem=batchSize]")
    expect(problem).to_contain_text("batchSize must be")
    expect(page.locator("#id_batchSize")).to_be_focused()
    page.locator("#id_batchSize").fill("8")
    make(page)


def test_a_file_that_cannot_be_used_says_why(alice, stack):
    page = alice.page
    page.goto(f"{stack.url}/packages/")
    page.locator("#upload").click()
    expect(page.locator("#source-problem")).to_contain_text("Choose a data file first")
    check_accessible(page)
    page.locator("#source").set_input_files({"name": "a.csv", "mimeType": "text/csv", "buffer": b"one\n1\n"})
    page.locator("#upload").click()
    expect(page.get_by_role("alert")).to_contain_text("at least two columns")
    check_accessible(page)
    page.get_by_role("link", name="Choose another file").click()
    expect(page.get_by_role("heading", name="Choose the data")).to_be_visible()


def test_the_keyboard_is_enough(alice, stack):
    page = upload(alice, stack, table("keys.csv"))
    page.locator("#id_name").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#preview")).to_be_visible()
    page.locator("#package-make").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="The package is ready")).to_be_focused()


def fits(page):
    for width in (360, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_pages_fit_a_phone_and_can_be_read_by_everybody(alice, stack):
    page = upload(alice, stack, table("everybody.csv"))
    fits(page)
    check(page)
    make(page)
    page.locator("details summary").first.click()
    fits(page)
    check(page)
    page.goto(f"{stack.url}/packages/")
    fits(page)
    check(page)
    upload(alice, stack, {"name": "text.txt", "mimeType": "text/plain", "buffer": b"one two three four " * 200})
    fits(page)
    check(page)
