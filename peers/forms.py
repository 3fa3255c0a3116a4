"""What people type on their own pages."""

from __future__ import annotations

from django import forms

from peers.services.user_tokens import DEFAULT_DAYS, MAX_DAYS, NAME_CHARACTERS


class TokenForm(forms.Form):
    name = forms.CharField(
        max_length=NAME_CHARACTERS,
        label="Name",
        help_text="What it is for, such as “nightly export on the lab's server”.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    days = forms.IntegerField(
        min_value=1, max_value=MAX_DAYS, initial=DEFAULT_DAYS, label="Days until it ends", help_text=f"1 to {MAX_DAYS}."
    )
