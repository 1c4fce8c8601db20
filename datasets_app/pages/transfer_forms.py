"""The forms of the pages that read files in and write them out."""

from typing import Any

from django import forms
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents_app.files import encodings
from agents_app.models import Pool
from datasets_app.models import Dataset, Split
from datasets_app.queries import query_columns
from training_app.engine.data.files import holds_json

FORMATS = (("jsonl", "JSONL"), ("csv", "CSV"), ("txt", gettext_lazy("Text, one query a line")))


class ImportForm(forms.Form):
    """A file and where it goes."""

    file = forms.FileField(
        label=gettext_lazy("File"),
        required=False,
        help_text=gettext_lazy(
            "Excel, CSV, JSON, JSONL, ZIP or text, one query a line; a chat log, one message a row; an export of Label Studio, "
            "Argilla, doccano or Prodigy; traces from Langfuse, LangSmith, Phoenix or MLflow; or agents: a table, an agent card, an "
            "OpenAPI document, the tools of an MCP server. Choose it, or drop it here."
        ),
        error_messages={
            "empty": gettext_lazy("The file is empty. Choose one that holds queries."),
        },
    )
    pasted = forms.CharField(
        label=gettext_lazy("or paste"),
        required=False,
        strip=False,
        max_length=2_000_000,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text=gettext_lazy("Cells of a spreadsheet, or queries, one a line."),
    )
    dataset = forms.CharField(
        label=gettext_lazy("Dataset"),
        max_length=120,
        help_text=gettext_lazy("An existing one, or a new name."),
        widget=forms.TextInput(attrs={"list": "datasets", "autocomplete": "off"}),
    )
    format = forms.ChoiceField(
        label=gettext_lazy("Format"),
        required=False,
        choices=(("", gettext_lazy("By the file's name and content")), *FORMATS),
    )
    split = forms.ChoiceField(
        label=gettext_lazy("Split"),
        required=False,
        choices=(("", gettext_lazy("As the rows say, or later")), *Split.choices),
        help_text=gettext_lazy("For rows that name none."),
    )

    def clean_dataset(self) -> str:
        return " ".join(self.cleaned_data["dataset"].split())

    def clean_file(self) -> Any:
        file = self.cleaned_data["file"]
        if file and file.size > settings.MAX_UPLOAD_MB << 20:
            raise forms.ValidationError(
                _("The file has %(size)s MB; at most %(limit)s. Split it, or use the command import_queries.")
                % {"size": file.size >> 20, "limit": settings.MAX_UPLOAD_MB}
            )
        return file

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        file = cleaned.get("file")
        if not file and not self.errors:
            text = cleaned.get("pasted", "")
            if not text.strip():
                self.add_error("file", _("Choose a file, or paste some lines."))
            else:
                cleaned["file"] = SimpleUploadedFile(_("pasted lines"), text.encode("utf-8", "replace"))
                file = cleaned["file"]
        if file and cleaned.get("format") == "txt":
            head = file.read(4_096)
            file.seek(0)
            if holds_json(head):
                self.add_error(
                    "format",
                    _("Its lines are JSON objects, and as text each would be stored with its braces. Choose JSONL."),
                )
        return cleaned


#: What a column may be, by our name for it.
MEANINGS = (
    ("text", gettext_lazy("The query's text")),
    ("required_agents", gettext_lazy("Agents that it needs")),
    ("more_labels", gettext_lazy("More agents that it needs")),
    ("mark", gettext_lazy("A mark: this agent is needed")),
    ("asked_agents", gettext_lazy("Agents that were asked about")),
    ("id", gettext_lazy("Its id")),
    ("split", gettext_lazy("Its split")),
    *((column.name, column.label) for column, entry in query_columns.entries() if not entry.row),
    ("annotator", gettext_lazy("Who labeled it")),
    ("suggested_agents", gettext_lazy("Suggested agents")),
    ("suggestion_score", gettext_lazy("Score of the suggestion")),
    ("suggestion_source", gettext_lazy("Source of the suggestion")),
    ("messages", gettext_lazy("The conversation")),
    ("conversation_id", gettext_lazy("The conversation's id")),
    ("speaker", gettext_lazy("Who says it")),
)
ENCODINGS = tuple((encoding, gettext_lazy(name)) for encoding, name in encodings.NAMES.items())
DELIMITERS = ((",", gettext_lazy("comma")), (";", gettext_lazy("semicolon")), ("\t", gettext_lazy("tab")), ("|", "|"))


class ColumnsForm(forms.Form):
    """How a file is read and what its columns are. The choices of columns are drawn by the template, from the file."""

    encoding = forms.ChoiceField(label=gettext_lazy("Encoding"), choices=ENCODINGS, required=False)
    delimiter = forms.ChoiceField(label=gettext_lazy("Between the cells"), choices=DELIMITERS, required=False)
    header = forms.BooleanField(label=gettext_lazy("The first row holds names"), required=False)
    keep = forms.BooleanField(label=gettext_lazy("Keep the other columns with each query"), required=False)
    empty = forms.ChoiceField(
        label=gettext_lazy("An empty label cell means"),
        required=False,
        choices=(("unlabeled", gettext_lazy("not labeled yet")), ("none", gettext_lazy("none of these agents"))),
    )
    split = forms.ChoiceField(
        label=gettext_lazy("Split"),
        required=False,
        choices=(("", gettext_lazy("As the rows say, or later")), *Split.choices),
    )


class _DatasetChoice(forms.ModelChoiceField):
    def label_from_instance(self, obj: Any) -> str:
        return str(obj.name)


class ExportForm(forms.Form):
    """What to write, and as what."""

    format = forms.ChoiceField(
        label=gettext_lazy("Format"),
        choices=(*FORMATS, ("folder", gettext_lazy("Folder for training elsewhere (ZIP)"))),
        initial="jsonl",
    )
    dataset = _DatasetChoice(
        Dataset.objects.none(), label=gettext_lazy("Dataset"), required=False, empty_label=gettext_lazy("All datasets")
    )
    include_unlabeled = forms.BooleanField(label=gettext_lazy("Also queries without a gold label"), required=False)

    def __init__(self, pool: Pool, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["dataset"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = pool.datasets.order_by("name")
