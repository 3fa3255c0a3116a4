"""Two to six jobs of one person in one chart, with what differs between them."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from jobs.selectors.compared_jobs import FEWEST, MOST, compare_jobs, jobs_named, jobs_to_pick
from jobs.selectors.kind import kind_of
from jobs.views.access import CoordinatorRequest, coordinator


@never_cache
@require_GET
@coordinator
def job_compare(request: CoordinatorRequest) -> HttpResponse:
    """`job` in the query, once for each. With fewer than two the page lets the person choose."""
    jobs = jobs_named(request.user, request.GET.getlist("job"))
    chosen = {job.pk for job in jobs}
    context = {"pick": jobs_to_pick(request.user), "chosen": chosen, "fewest": FEWEST, "most": MOST, "section": "jobs"}
    if len(jobs) > MOST:
        problem = f"Choose {FEWEST} to {MOST} jobs; {len(jobs)} were chosen."
        return render(request, "jobs/compare.html", {**context, "problem": problem}, status=400)
    if len(jobs) < FEWEST:
        return render(request, "jobs/compare.html", context)
    units = {kind_of(job).units_in_text for job in jobs}
    compared = {"comparison": compare_jobs(jobs), "unit": units.pop() if len(units) == 1 else "examples or units"}
    return render(request, "jobs/compare.html", {**context, **compared})
