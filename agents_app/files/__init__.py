"""One reader for every file that somebody gave us: queries, agents, cards, models, backups.

`reader` is what the rest of the product calls. It parses nothing itself: a child process (`child`) reads each file. It has limits of
CPU time, memory and silence, knows no secret of this process, and sends back plain JSON. So a file can waste a few seconds of a child,
and never a thread of the web server.

`reader.records` gives a file's records as an import reads them, `reader.head` what a file is and its first records, and `reader.texts`
every text that a stored file holds, which is what finding and erasing somebody's data look through. The modules beside it run in the
child and know no Django: `formats` (text in any encoding, CSV, JSON), `workbooks` (XLSX), `detecting` (what a file is), `texts`.
"""
