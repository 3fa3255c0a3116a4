"""Charts in Chromium: looked into by keys and mouse, saved as picture and file; two jobs compared; a timeline."""

import csv
import io
import re

import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.browser.accessibility import check_accessible
from tests.browser.people import Coordinator

pytestmark = pytest.mark.usefixtures("nobody_complains")
ROUNDS = 2_400
SEED = """
import json
from datetime import timedelta
from django.contrib.auth.models import User
from django.utils import timezone
from checkpoints.models import Checkpoint
from jobs.models import Attempt, Job, Round, Slot
from tests.pages import factories

owner, _ = User.objects.get_or_create(username="alice")

def finished(name, rounds, pace, dataset=None):
    begun = timezone.now() - timedelta(seconds=40 * rounds)
    settings = {**factories.SETTINGS, "learningRate": pace}
    job = factories.make_job(
        owner, name=name, settings_text=json.dumps(settings), status="completed", round_no=rounds, started_at=begun,
        **({"dataset": dataset} if dataset else {}),
    )
    weights = factories.make_artifact()
    def checkpoint(number):
        loss = 2 / (1 + pace * number)
        measured = {"metrics": {"loss": loss + 0.01}, "examplesProcessed": 9}
        return Checkpoint(
            job=job, round=number, weights=weights, settings_text="{}", ledger_text="{}",
            progress_text='{"pass":0,"cursor":0,"requeued":[]}',
            metrics_text=json.dumps({"loss": loss}) if number else "{}", examples_processed=500 if number else 0,
            validation="none" if number % 10 else "done", validation_text="" if number % 10 else json.dumps(measured),
            created=begun + timedelta(seconds=40 * number),
        )
    Checkpoint.objects.bulk_create([checkpoint(number) for number in range(rounds + 1)], 500)
    made = Round.objects.create(
        job=job, number=rounds, state="done", received=2, settings_text="{}", start_weights="0" * 64,
        opened_at=begun, closing_at=begun + timedelta(seconds=30), done_at=begun + timedelta(seconds=40),
    )
    for place, (label, seconds) in enumerate({"Laptop": 12, "Phone": 30}.items()):
        peer = factories.make_peer(label)
        times = {"started_at": begun, "finished_at": begun + timedelta(seconds=seconds)}
        slot = Slot.objects.create(
            round=made, deal=0, position=place, chunk=job.dataset.chunks.all()[place], record_count=125, peer=peer,
            status="received", seed="1", **times,
        )
        Attempt.objects.create(
            slot=slot, peer=peer, state="received", deadline=begun, training_at=begun + timedelta(seconds=2),
            uploading_at=begun + timedelta(seconds=seconds - 2), **times,
        )
    return job

one = finished("Small steps", rounds, 0.05)
two = finished("=Large steps", 60, 0.5, one.dataset)
answer = [str(one.pk), str(two.pk)]
"""


@pytest.fixture(scope="module")
def jobs(stack):
    return stack.shell(SEED, rounds=ROUNDS)


@pytest.fixture
def alice(stack, chromium):
    with Coordinator(chromium, "alice", viewport={"width": 1280, "height": 900}) as person:
        yield person.sign_in(stack)


def saved(page, button, tmp_path):
    with page.expect_download() as download:
        page.locator(button).click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    return path


def rows_of(path):
    return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))


def looked_at(page):
    """First and last round in view."""
    text = page.locator("#chart-range").inner_text().replace(",", "")
    return [int(number) for number in re.findall(r"\d+", text)]


def test_a_chart_is_looked_into_by_keys_and_mouse_and_saved(stack, alice, jobs, tmp_path):
    page = alice.open_job(stack, jobs[0]).page
    chart = page.locator("#chart")
    expect(chart.locator("canvas")).to_be_visible()
    chart.focus()
    for _ in range(4):
        page.keyboard.press("+")
    # The part that is looked at is fetched with all its points: one row for each round.
    expect(page.locator("#chart-range")).to_have_text("Round 1,125 to 1,275")
    expect(page.locator("#chart-said")).to_have_text("Round 1,125 to 1,275")
    page.locator("#chart-table summary").click()
    expect(page.locator("#chart-table-body tr")).to_have_count(151)
    page.keyboard.press("Escape")
    chart.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#chart-range")).to_have_text("Round 1,163 to 1,312")
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator("#chart-said")).to_contain_text("Round 1163; ")
    expect(page.locator(".chart-tip")).to_contain_text("Loss, training")
    rows = rows_of(saved(page, "#chart-csv", tmp_path))
    assert rows[0][:4] == ["Round", "Saved at", "Seconds since the start", "Examples so far"]
    assert rows[0][4:] == ["Participants", "Loss, training", "Loss, validation"]
    assert [int(row[0]) for row in rows[1:]] == list(range(1163, 1313))
    assert (rows[1][3], rows[1][5], rows[1][6]) == ("581500", str(2 / (1 + 0.05 * 1163)), "")
    before = looked_at(page)
    hint = "document.dispatchEvent(new CustomEvent('weei:checkpoints'))"
    with page.expect_response(re.compile("/chart$")):
        page.evaluate(hint)
    assert looked_at(page) == before
    chart.focus()
    page.keyboard.press("0")
    expect(page.locator("#chart-range")).to_have_text("")
    box = chart.locator(".u-over").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60, steps=4)
    page.mouse.up()
    expect(page.locator("#chart-range")).to_contain_text("Round ")
    first, last = looked_at(page)
    assert abs(first - ROUNDS * 0.25) < 30 and abs(last - ROUNDS * 0.5) < 30
    with Image.open(saved(page, "#chart-png", tmp_path)) as picture:
        assert picture.format == "PNG" and picture.width > 500 and picture.height > 300
        # The page's surface, and inside of the drawing the colour of the first metric.
        assert picture.convert("RGB").getpixel((1, 1)) == (255, 255, 255)
        shades = picture.convert("RGB").crop((60, 110, picture.width, picture.height)).getcolors(1 << 20)
        assert (15, 118, 110) in {color for _, color in shades}


def test_two_jobs_are_compared_and_the_address_keeps_the_choice(stack, alice, jobs, tmp_path):
    page = alice.open_job(stack, jobs[0]).page
    page.get_by_role("link", name="Compare with other jobs").click()
    expect(page.get_by_label("Small steps")).to_be_checked()
    page.get_by_label("=Large steps").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("#chart canvas")).to_be_visible()
    expect(page.get_by_text("These two trained different models")).to_be_visible()
    expect(page.locator("#compare-facts tbody tr:visible th")).to_contain_text(["Learning rate"])
    page.locator("#compare-metric").select_option("loss training")
    page.locator("#compare-goal").fill("0.1")
    # 2 / (1 + 0.05 n) is 0.1 at n = 380; with 0.5 at n = 38. The newest job comes first.
    reached = page.locator("#compare-best [data-label^=Goal]")
    expect(reached).to_have_text(["38", "380"])
    expect(page.locator("#compare-best [data-label=After]")).to_have_text(["25 min 20 s", "4 h 13 min"])
    rows = rows_of(saved(page, "#chart-csv", tmp_path))
    assert rows[0] == ["Round", "'=Large steps", "Small steps"]
    assert rows[1] == ["0", "", ""] and float(rows[2][1]) == 2 / 1.5
    page.locator("#compare-all").check()
    expect(page.locator("#compare-facts").get_by_text("Local epochs")).to_be_visible()
    check_accessible(page)
    page.locator("#chart-axis").select_option("time")
    page.goto(page.locator("#compare-link").input_value())
    expect(reached).to_have_text(["38", "380"])
    expect(page.locator("#chart-axis")).to_have_value("time")
    expect(page.locator("#compare-metric")).to_have_value("loss training")


def test_the_timeline_of_a_round_says_who_waited_for_whom(stack, alice, jobs):
    page = alice.open_job(stack, jobs[1]).page
    page.locator("#panel-rounds").get_by_role("link", name="Round 60").click()
    expect(page.get_by_role("heading", name="Round 60", exact=True)).to_be_visible()
    expect(page.get_by_text("For 18 s of the 30 s until the last update (60 %)")).to_contain_text("waited for Phone")
    laptop = page.get_by_role("img", name=re.compile("preparing from 0.0 to 2.0 s, .*waiting for the others from 12.0"))
    bars = [bar.bounding_box() for bar in laptop.locator("rect").all()]
    whole = laptop.bounding_box()
    assert [round(bar["width"] / whole["width"], 2) for bar in bars] == [0.05, 0.2, 0.05, 0.45]
    page.locator("#round-table summary").click()
    expect(page.locator("#round-table tbody tr")).to_have_count(2)
    check_accessible(page)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    check_accessible(page)
