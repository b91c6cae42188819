"""Labels of long pasted texts."""

from __future__ import annotations

from toolcast.apps.repl.early_keys import Pastes


def test_a_text_with_labels_is_folded_whole() -> None:
    pastes = Pastes()
    text = "line\n" * 20
    label = pastes.fold(text.replace("\n", "\r\n"))
    assert label == "[pasted 20 lines]" == pastes.fold(label)
    both = pastes.fold(f"{label}and\rmore")
    assert both == "[pasted 22 lines]"
    assert pastes.unfold(f"{both}!") == f"{text}and\nmore!"
    assert pastes.label_before(f"see {both}") == both
