"""Codes about who may do what, and when."""

from __future__ import annotations

from weei_site.help_errors.entry import Entry, Group

ACCESS = Group(
    "Who may do what",
    (
        Entry(
            "unauthorized",
            "The server does not know who is asking",
            "Your session ended, or this browser's guest identity is not known here any more.",
            "Sign in again. A participant's browser gets a new identity when you open an invitation again.",
        ),
        Entry(
            "forbidden",
            "You may not do this",
            "You are known, but this belongs to somebody else or to another role.",
            "Sign in as the coordinator of the job, or accept an invitation first.",
        ),
        Entry(
            "not_found",
            "There is nothing at this address",
            "It was deleted, never existed, or is not yours to see.",
            "Go back to the list of jobs and open it from there.",
        ),
        Entry(
            "invitation_invalid",
            "This invitation link does not work",
            "It was used up, revoked, has expired, or is not complete. All four look the same on purpose.",
            "Ask the coordinator for a new link. Links break when a mail program cuts them: copy the whole line.",
        ),
        Entry(
            "sign_in_link_invalid",
            "This sign-in link does not work",
            "It works once and for one day, and every sign-in ends the links made before it.",
            "Sign in with your password, or have a new link made.",
        ),
        Entry(
            "origin_not_registered",
            "This site may not use Weei",
            "A page of another site asked, and no administrator of this server registered that site, or it is off now.",
            "Ask the administrator to register the exact origin: scheme, host and port.",
        ),
        Entry(
            "widget_not_enabled",
            "Training is not enabled for you on this site",
            "The site may use Weei, but not for your account.",
            "Ask the administrator of this server to enable it for you, or use this server's own pages.",
        ),
        Entry(
            "sign_in_needed",
            "This site is for chosen people",
            "Only signed-in people whom the administrator chose may use Weei there.",
            "Sign in on that site with your account of this server.",
        ),
        Entry(
            "signed_out",
            "This site or program is not signed in any more",
            "Its sign-in ended: you revoked it, it expired, or your password was changed.",
            "On a site, sign in again; for a program, make a new token. “Connected sites” and “Access tokens” list "
            "what acts for you.",
        ),
        Entry(
            "other_origin",
            "This sign-in belongs to another site",
            "What one site was given does not work from a second one.",
            "Sign in on each site by itself.",
        ),
        Entry(
            "rate_limited",
            "Too many requests",
            "More requests came from here than the server answers in this time.",
            "Wait a minute. Nothing that was accepted is lost.",
        ),
        Entry(
            "locked",
            "Too many wrong passwords",
            "Ten wrong passwords came for this name from this address.",
            "Wait ten minutes, or use a one-time sign-in link.",
        ),
        Entry(
            "decided",
            "That was decided before",
            "The invitation or the item was accepted, declined, retried or skipped already.",
            "Look at the page as it is now. A participant can open the link again, or leave the job instead.",
        ),
        Entry(
            "not_a_member",
            "This browser takes no part in that job",
            "It left, was removed, or another job is current here.",
            "Open an invitation link again if you want to take part.",
        ),
        Entry(
            "job_ended",
            "The job has ended",
            "A completed job takes no more participants.",
            "Ask the coordinator whether there is another job.",
        ),
    ),
)
NOW = Group(
    "Right, but not now",
    (
        Entry(
            "conflict",
            "Something changed meanwhile",
            "The request was about a state that is over.",
            "Look at the page again; it shows the state as it is.",
        ),
        Entry(
            "wrong_status",
            "The job is in another state",
            "Starting needs a job that is ready, resuming one that is paused, and so on.",
            "Reload the page: its buttons are those that work now.",
        ),
        Entry(
            "leave_first",
            "Another job is current in this browser",
            "A browser works for one job at a time.",
            "Open “This browser” and leave the current job, then try again. The job itself goes on.",
        ),
        Entry(
            "try_again",
            "Somebody else was quicker",
            "Two requests met; one of them won.",
            "Do it once more.",
        ),
        Entry(
            "unavailable",
            "The server is busy or a part of it is away",
            "This passes by itself.",
            "Wait for the time the answer names, then try again. Browsers and agents do so on their own.",
        ),
        Entry(
            "nobody_trains",
            "Nobody can train yet",
            "A job is started when at least one device has accepted, or this browser trains itself.",
            "Make an invitation link and let somebody accept it, or press “Open here” so that this browser trains.",
        ),
        Entry(
            "wrong_kind",
            "This kind of job cannot do that",
            "Shuffling needs chunks, and a model that makes its own data has none.",
            "Nothing to do: such a job plays new units every round.",
        ),
        Entry(
            "no_evaluation",
            "The model cannot evaluate",
            "Its module does not declare evaluation, or makes its own data and declares no units for it.",
            "Switch validation off in the settings.",
        ),
        Entry(
            "no_inference",
            "The model cannot answer",
            "Its module does not declare inference, so a trained checkpoint of it cannot be asked anything.",
            "Use a model that declares it; those that the package generator makes do.",
        ),
        Entry(
            "no_validation_file",
            "There is no validation file",
            "The job was created without one, and none can be added later.",
            "Continue from a checkpoint with a validation file.",
        ),
        Entry(
            "busy",
            "The server takes many uploads already",
            "More uploads are under way than it can hold at once.",
            "Nothing to do: the browser tries again by itself.",
        ),
        Entry(
            "taken_over",
            "The upload went on elsewhere",
            "A newer connection sends the same file.",
            "Nothing to do: the newer one goes on.",
        ),
        Entry(
            "too_slow",
            "The upload came too slowly",
            "Less than about 50 KB a second arrived for half a minute.",
            "Nothing to do: it goes on where it stopped. A better connection helps.",
        ),
    ),
)
