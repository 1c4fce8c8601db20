"""In which language a text is written, as far as its script and its commonest words tell; and its parts in scripts without spaces.
Standard library only.

A guess for two purposes: a scorecard says which languages a model was tested in, and a model knows a text in a language that none
of its training queries is in. A short text without any common word has none, "".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from unicodedata import category

#: Letters of scripts that put no space between words: Thai, Lao, Khmer, Burmese, kana and Han.
SPACELESS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
#: Signs that belong to the letter before them: accents, vowels of Indic scripts, points of Hebrew and Arabic, joiners.
MARKS = "".join(sign for sign in map(chr, range(0x300, 0xE00)) if category(sign).startswith("M")) + "\u200c\u200d"
#: A run of letters and digits with their marks; and words with apostrophes and hyphens within.
RUN = re.compile(rf"[\w{MARKS}]+")
COMPOUND = re.compile(rf"[\w{MARKS}]+(?:['’-][\w{MARKS}]+)*")
#: One letter of these, or of Hangul, in which two letters are often a word.
SPACELESS_LETTER = re.compile(rf"[{SPACELESS}\uac00-\ud7af]")
_SCRIPTS: tuple[tuple[str, str], ...] = (
    ("ja", r"[\u3040-\u30ff]"), ("ko", r"[\uac00-\ud7af\u1100-\u11ff]"), ("zh", r"[\u3400-\u4dbf\u4e00-\u9fff]"),
    ("th", r"[\u0e00-\u0e7f]"),
    ("ru", r"[\u0400-\u04ff]"), ("ar", r"[\u0600-\u06ff]"), ("hi", r"[\u0900-\u097f]"),
    ("he", r"[\u0590-\u05ff]"), ("el", r"[\u0370-\u03ff]"), ("ka", r"[\u10a0-\u10ff]"), ("hy", r"[\u0530-\u058f]"),
    ("bn", r"[\u0980-\u09ff]"), ("ta", r"[\u0b80-\u0bff]"), ("te", r"[\u0c00-\u0c7f]"),
)  # fmt: skip
_SCRIPT = tuple((language, re.compile(letters)) for language, letters in _SCRIPTS)
_LETTERS = re.compile(r"[^\W\d_]+")
_LATIN = re.compile(r"[a-zà-öø-ɏḁ-ỹ]+")
#: The commonest words of languages in Latin letters. A word of several languages counts for each.
_COMMON = {
    "en": """the a an and or is are am was were i you he she it we they my your his her our this that what when where how why who
    which to of for from with on at by not no can do does did have has had will would could should please there been be if as but so
    any get need want""",
    "de": """der die das den dem des ein eine einen einem einer und oder ist sind bin war ich du er sie es wir ihr mein meine meinen
    meiner mich mir dein was wann wo wie warum wer welche zu von für mit auf bei nicht kein keine kann können habe hat haben wird
    bitte im am aus noch auch wenn aber gibt guten danke dass nach""",
    "fr": """le la les un une des et ou est sont je tu il elle nous vous ils mon ma mes votre ce cette que qui quoi quand où comment
    pourquoi quelle quel de du pour avec sur dans au aux ne pas plus peut ai avez être fait s'il plaît bonjour merci en se sans
    chez""",
    "es": """el la los las un una unos y o es son soy está están yo tú él ella nosotros mi mis su sus este esta que qué quién cuándo
    dónde cómo por para con de del al en no se me le lo puedo puede hay tengo he ha favor gracias hola buenos pero más muy
    cuánto""",
    "it": """il lo la gli le un una e o è sono io tu lui lei noi mio mia miei questo questa che chi quando dove come perché quale di
    del della per con su in al non si mi ci può posso ho ha hanno vorrei grazie ciao buongiorno anche più""",
    "pt": """o a os as um uma e ou é são eu tu ele ela nós meu minha meus seu sua este esta que quem quando onde como porque qual de
    do da dos das para com em no na não se me posso pode há tenho obrigado obrigada olá bom muito mais quero""",
    "nl": """de het een en of is zijn ben was ik jij je hij zij we wij mijn uw dit dat wat wanneer waar hoe waarom wie welke van
    voor met op bij niet geen kan kunnen heb heeft wordt graag te aan uit nog ook maar dank goedemorgen""",
    "pl": """i lub jest są nie tak ja ty on ona my mój moja moje twój ten ta to co kto kiedy gdzie jak dlaczego który do od dla z na
    w o po się mnie mi czy mogę może mam proszę dziękuję dzień dobry już jeszcze ale""",
    "tr": """ve veya bir bu şu o ben sen biz siz benim bana beni ne kim nerede nasıl neden hangi için ile de da mi mı mu mü değil
    var yok istiyorum lütfen çok daha ama kadar gibi olarak merhaba teşekkürler zaman ederim""",
    "sv": """och eller är var jag du han hon vi ni min mitt mina din det den detta vad när hur varför vem vilken att av för med på
    inte ingen kan har ska vill tack hej om från till som""",
    "ro": """și sau este sunt eu tu el ea noi meu mea un o acest această ce cine când unde cum de pentru cu la pe nu se mă pot poate
    am are vă rog mulțumesc bună mai din""",
    "cs": """a nebo je jsou jsem já ty on ona my můj moje ten ta to co kdo kdy kde jak proč který do od pro s na v o se mi mě nejde
    mohu můžu mám prosím děkuji dobrý den už ještě ale""",
}
#: Letters and signs that these languages have and few others do; each in a text is one vote more.
_SIGNS = {
    "de": "äöüß", "fr": "èêàùçœ", "es": "ñ¿¡áíó", "pt": "ãõç", "tr": "ğışç", "pl": "ąęłńśźż", "cs": "ěščřžů", "ro": "ăâțș", "sv":
    "åäö",
    "it": "òàìù",
}  # fmt: skip


#: Words that a language shares with others, in which they are more common: they came later, and a model that was trained before them
#: reads without them, so that it answers as it did.
_SHARED = {
    "en": "in me come per till", "de": "in ja an so will hat per", "fr": "me on par", "it": "me", "nl": "in ja me per",
    "sv": "ja",
}  # fmt: skip


def _languages_by_word(*lists: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    words: dict[str, tuple[str, ...]] = {}
    for language, listed in (pair for each in lists for pair in each.items()):
        for word in listed.split():
            words[word] = (*words.get(word, ()), language)
    return words


_WORDS, _WORDS_BEFORE = _languages_by_word(_COMMON, _SHARED), _languages_by_word(_COMMON)
#: Languages that the sentence encoder reads (Yang et al. 2019).
ENCODED = frozenset({"ar", "zh", "en", "fr", "de", "it", "ja", "ko", "nl", "pl", "pt", "es", "th", "tr", "ru"})
LONGEST = 2_000  # characters that are looked at


def language_of(text: str, *, shared: bool = True) -> str:
    """The language of a text by its code (ISO 639-1), "" where nothing tells. `shared`: whether words count that languages share."""
    words = _WORDS if shared else _WORDS_BEFORE
    text = str(text)[:LONGEST]
    if not text.isascii():
        letters = sum(map(len, _LETTERS.findall(text)))
        for language, script in _SCRIPT:
            # A foreign name in a text does not make it foreign.
            if len(script.findall(text)) >= max(1, letters // 4):
                return _sister(language, text)
    votes: Counter[str] = Counter()
    for word in _LATIN.findall(text.lower()):
        for language in words.get(word, ()):
            votes[language] += 1
    if not text.isascii():
        for language, signs in _SIGNS.items():
            votes[language] += sum(sign in text.lower() for sign in signs)
        votes = +votes
    if not votes:
        return ""
    (language, top_votes), *others = votes.most_common(2)
    return "" if others and others[0][1] == top_votes else language


def _sister(language: str, text: str) -> str:
    """The language, or the one that shares its script and has letters of its own in the text."""
    if language == "ru" and re.search("[іїєґІЇЄҐ]", text):
        return "uk"
    if language == "ar" and re.search("[پچژگ]", text):
        return "fa"
    return language


def counted(texts: Iterable[str]) -> dict[str, int]:
    """How many texts are in each language, most first; those in none that can be told are left out."""
    counts = Counter(language for language in map(language_of, texts) if language)
    return dict(counts.most_common())
