"""Words for yes and no, in the languages of tables; none of them means the other one anywhere."""

from __future__ import annotations

from unicodedata import normalize


def _spelt(words: str) -> tuple[str, ...]:
    """Words as they are found in text whose letters of ASCII, and no others, were made small."""
    letters = (form for word in words.split() for form in (word, word.upper(), word.capitalize()))
    forms = (normalize(form, text) for text in letters for form in ("NFC", "NFD"))
    return tuple(dict.fromkeys(_small(text) for text in forms))


def _small(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


YES = _spelt(
    "true t yes y on ja j wahr oui vrai si sí sì s verdadero vero sim verdadeiro tak prawda ano "
    "áno pravda igen igaz da evet kyllä jah taip да"
)
"""Without o, which is oui and also a nought, and without v and w, which are also women."""

NO = _spelt(
    "false f no n off nein falsch non faux falso não nao nie fałsz ne nepravda nem hamis nu hayır "
    "ei nee nej nei nē нет"
)
