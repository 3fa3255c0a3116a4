"""Pages of the coordinator."""

from __future__ import annotations

from django.urls import path

from jobs.views import actions, compare, create, pages, panels, people, play, rounds

urlpatterns = [
    path("jobs/", pages.job_list, name="job-list"),
    path("jobs/new/", pages.job_new, name="job-new"),
    path("jobs/new/settings", create.settings_check, name="job-new-settings"),
    path("jobs/new/fields", create.settings_fields, name="job-new-fields"),
    path("jobs/new/advice", create.advice, name="job-new-advice"),
    path("jobs/continue/", pages.job_continue, name="job-continue"),
    path("jobs/compare", compare.job_compare, name="job-compare"),
    path("jobs/<uuid:job_id>/", pages.job_detail, name="job-detail"),
    path("jobs/<uuid:job_id>/panels/<slug:name>", panels.panel, name="job-panel"),
    path("jobs/<uuid:job_id>/chart", pages.job_chart, name="job-chart"),
    path("jobs/<uuid:job_id>/log.json", pages.job_log, name="job-log"),
    path("jobs/<uuid:job_id>/play/", play.play, name="job-play"),
    path("jobs/<uuid:job_id>/play/newest", play.play_files, name="job-play-newest"),
    path("jobs/<uuid:job_id>/play/<int:round_no>", play.play_files, name="job-play-files"),
    path("jobs/<uuid:job_id>/manifest", pages.job_manifest, name="job-manifest"),
    path("jobs/<uuid:job_id>/rounds/", rounds.job_rounds, name="job-rounds"),
    path("jobs/<uuid:job_id>/rounds/<int:round_no>/", rounds.job_round, name="job-round"),
    path("jobs/<uuid:job_id>/checkpoints/", pages.job_checkpoints, name="job-checkpoints"),
    path("jobs/<uuid:job_id>/checkpoints/<int:round_no>/", pages.job_checkpoint, name="job-checkpoint"),
    path("jobs/<uuid:job_id>/checkpoints/<int:round_no>/validate", actions.job_validate, name="job-validate"),
    path("jobs/<uuid:job_id>/checkpoints/<int:round_no>/continue", pages.job_continue, name="job-continue-from"),
    path("jobs/<uuid:job_id>/actions/<slug:action>", actions.job_action, name="job-action"),
    path("jobs/<uuid:job_id>/items/<int:item_id>/<slug:action>", actions.item_action, name="item-action"),
    path("jobs/<uuid:job_id>/settings", actions.job_settings, name="job-settings"),
    path("jobs/<uuid:job_id>/delete", pages.job_remove, name="job-delete"),
    path("jobs/<uuid:job_id>/restore", pages.job_bring_back, name="job-restore"),
    path("jobs/<uuid:job_id>/invitations", people.invitation_new, name="invitation-new"),
    path("jobs/<uuid:job_id>/invitations/<uuid:invitation_id>/revoke", people.invitation_end, name="invitation-revoke"),
    path(
        "jobs/<uuid:job_id>/participants/<uuid:peer_id>/<slug:action>",
        people.participant_action,
        name="participant-action",
    ),
]
