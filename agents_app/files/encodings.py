"""In which of the encodings before Unicode a text is, from the letters that it would hold in each. Runs in the child process.

An encoding is judged by what its languages write most: read in the right one, half of a text or more are these characters, read in
another few are. Encodings of several bytes a character refuse most texts of the others at once.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping

from agents_app.files.formats import gettext_noop

#: What people call each encoding that a file may be read in. Those that are guessed have their characters in `_COMMON`.
NAMES: Mapping[str, str] = {
    "utf-8": "UTF-8",
    "cp1252": gettext_noop("Windows-1252 (Western)"),
    "cp1250": gettext_noop("Windows-1250 (Central European)"),
    "cp1251": gettext_noop("Windows-1251 (Cyrillic)"),
    "cp1253": gettext_noop("Windows-1253 (Greek)"),
    "cp1254": gettext_noop("Windows-1254 (Turkish)"),
    "cp1255": gettext_noop("Windows-1255 (Hebrew)"),
    "cp1256": gettext_noop("Windows-1256 (Arabic)"),
    "cp874": gettext_noop("Windows-874 (Thai)"),
    "cp932": gettext_noop("Shift_JIS (Japanese)"),
    "euc_jp": gettext_noop("EUC-JP (Japanese)"),
    "cp949": gettext_noop("EUC-KR (Korean)"),
    "gb18030": gettext_noop("GB 18030 (Simplified Chinese)"),
    "big5": gettext_noop("Big5 (Traditional Chinese)"),
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16 LE",
    "utf-16-be": "UTF-16 BE",
}  # fmt: skip
_JAPANESE = (
    "".join(map(chr, (*range(0x3041, 0x3097), *range(0x30A1, 0x30FD)))) + "、。「」！？　０１２３４５６７８９"
    "日本人大年会中国出時行見月分生前間上東今金後話何予約変更返品送料配達商届注文請求支払確認問合利用方法登録名電番号"
)
#: The characters that the languages of an encoding write most. Of two that fit equally well, the first is taken.
_COMMON: Mapping[str, str] = {
    "cp1252": "äöüßÄÖÜéèêëàâçñáíóúãõôîïûùåøæœÉÈÀÇÑÁÍÓÚÃÕÔÅØÆ¿¡«»–—’‘“”„…€°§º",
    "cp1251": "оеаинтсрвлкмдпуябьызгчйОЕАИНТСРВЛКМДПУЯЗГЧ–—«»№",
    "cp1254": "çğıöşüâîûÇĞİÖŞÜ–—’‘“”…€",
    "cp1250": "ąćęłńóśźżáčďéěíňřšťúůýžőűöüäôĄĆĘŁŃÓŚŹŻÁČĎÉĚÍŇŘŠŤÚŮÝŽ–„”",
    "cp1256": "اليمنوتربةعدسفهكقحجأإشىصطخ،؟",
    "cp1253": "αοιετσνηυρπκμλςάέήίόύώΑΟΙΕΤΣΝΗΥΡΠΚΜΛ",
    "cp1255": "יוהלאתרבמשנכםעחדקפ",
    "cp874": "านรอกเงมยลวดทสตะปบคหแจพชขใไโ่้ีัิืุู์",
    "cp932": _JAPANESE,
    "euc_jp": _JAPANESE,
    "cp949": "이다는에의가을를고하지로사도기어나자인아대리시스해그라한서정있요니수어제으보부과전주일상습었안세구장게만여원우드면내동성"
    "관트무마오선유조비당신개계금문든간거국방치양생실연현배송불반품예약결환청변경취소주세문의회원영화물건업입금확번호앱계좌됩까"
    "했되않못달라합할은와려싶왔갔겠같",
    "gb18030": "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成"
    "方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情"
    "明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给世"
    "位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再"
    "感建务做接必场件计管期市直德资命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象完设式"
    "色路记南品住告类求据程北边死张该交规万取拉格望觉术领共确传师观清今切院让识候带导争运订单退款货请帮查收付密码登录，。？！吗",
    "big5": "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡用道行所然家種事成"
    "方多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實日者意無力它與長把機十民第公此已工使情"
    "明性知全三又關點正業外將兩高間由問很最重並物手應向頭文體相見被利什二等產或新己制身果加月話合回特代內信表化老給訂單退款貨請"
    "幫查收付密碼登錄帳號，。？！嗎",
}  # fmt: skip
#: A text is in no encoding of those where fewer of its characters beyond ASCII than this share are common ones.
LEAST = 0.2
#: Three letters beyond ASCII in a row: Western languages do not write so, all others do.
_ROW = re.compile(r"[^\W\d_\x00-\x7f]{3,}")


def guessed(beginning: bytes) -> str:
    """The encoding in which a text's first bytes, which are no UTF-8, most likely are; Western where none fits."""
    shares = {encoding: share for encoding in _COMMON if (share := _share(beginning, encoding)) >= LEAST}
    return max(shares, key=lambda encoding: shares[encoding]) if shares else "cp1252"


def _share(beginning: bytes, encoding: str) -> float:
    """The share of common characters among those beyond ASCII, 0 where the bytes are no text in that encoding. What no
    language of it writes counts against it: bytes of other encodings are read as that."""
    decoder = codecs.getincrementaldecoder(encoding)()  # leaves out a character that breaks off at the end
    try:
        text = decoder.decode(beginning)
    except UnicodeDecodeError:
        return 0.0
    beyond = Counter(character for character in text if character > "\x7f")
    whole = beyond.total()
    if not whole:
        return 0.0
    common = _COMMON[encoding]
    strange = sum(n for character, n in beyond.items() if _is_strange(character))
    if encoding == "cp1252":
        strange += 2 * sum(map(len, _ROW.findall(text)))
    return (sum(beyond[character] for character in set(common)) - strange) / whole


def _is_strange(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cn", "Co")


def wide(beginning: bytes) -> str:
    """UTF-16 without the mark that names it: of a text's signs, spaces and ends of lines every other byte is zero, always the same
    one. "" for anything else."""
    some = beginning[: 65_536 & ~1]
    some = some[: len(some) & ~1]
    if len(some) < 8:
        return ""
    even, odd = some[0::2].count(0), some[1::2].count(0)
    encoding = "utf-16-le" if odd > even else "utf-16-be"
    if max(even, odd) < max(0.01 * len(some) / 2, 4 * min(even, odd)):
        return ""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(some)
    except UnicodeDecodeError:
        return ""
    strange = sum(_is_strange(character) and character not in "\t\r\n" for character in text)
    return encoding if strange == 0 else ""
