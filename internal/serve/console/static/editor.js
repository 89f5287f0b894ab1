// The editor of configs: CodeMirror, with each finding under its line.
//
// It is mounted in a shadow root, where CodeMirror adopts its style sheets: in the document it would write <style>
// elements, which the Content-Security-Policy stops. Own colours are in editor.css.
import {
  Annotation, Decoration, EditorState, EditorView, StateEffect, StateField, WidgetType, bracketMatching,
  classHighlighter, defaultKeymap, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, history,
  historyKeymap, indentOnInput, indentWithTab, keymap, lineNumbers, syntaxHighlighting, yaml,
} from "./vendor/codemirror.js";

const signs = { error: "!", warning: "?" };

// A file of more bytes is not read when it is dropped on the editor: no config may be larger (MaxConfigBytes), and an
// image would fill the memory of the page.
const maxDropped = 2 << 20;

// A change with this annotation comes from the page, which knows of it: it calls no onChange.
const fromPage = Annotation.define();

// These colours replace CodeMirror's own, which are stronger than what a style sheet in the shadow root says. The
// sizes are here so that they hold before editor.css is there.
const theme = EditorView.theme({
  "&": { color: "var(--editor-ink)", backgroundColor: "var(--editor-paper)", maxHeight: "var(--editor-height, 70vh)" },
  "&.cm-focused": { outline: "2px solid var(--editor-focus)" },
  ".cm-scroller": { overflow: "auto" },
  ".cm-content": { caretColor: "var(--editor-ink)" },
  ".cm-gutters": {
    color: "var(--editor-faint)", backgroundColor: "var(--editor-gutter)", borderColor: "var(--editor-rule)",
  },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--editor-line)" },
  ".cm-specialChar": { color: "var(--editor-error)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--editor-match)" },
  "&.cm-focused .cm-nonmatchingBracket": { backgroundColor: "var(--editor-line)", color: "var(--editor-error)" },
});

const setFindings = StateEffect.define();

// The findings, each with the begin of its line, which moves with the text around it until new findings come.
const findings = StateField.define({
  create: () => [],
  update(list, tr) {
    for (const effect of tr.effects) {
      if (effect.is(setFindings)) return effect.value.map((finding) => placed(finding, tr.newDoc));
    }
    return tr.docChanged ? list.map((at) => ({ ...at, from: tr.changes.mapPos(at.from, 1) })) : list;
  },
});

// A line that the text no longer has is its last line: the text may have changed since it was compiled.
function placed(finding, doc) {
  const line = doc.line(Math.min(finding.line, doc.lines));
  return { finding, from: line.from, offset: offsetOf(line.text, finding.column) };
}

// offsetOf returns the place of a column in a line. The server counts bytes, a string of JavaScript UTF-16 units.
function offsetOf(text, column) {
  const before = new TextEncoder().encode(text).subarray(0, Math.max(0, (column || 1) - 1));
  return new TextDecoder().decode(before).length;
}

function targetOf(at, doc) {
  const line = doc.lineAt(at.from);
  return line.from + Math.min(at.offset, line.length);
}

function words({ line, column, path, message, hint }) {
  const place = column ? `${line}:${column}` : `${line}`;
  return `${place} ${path && path !== "$" ? `${path}: ` : ""}${message}${hint ? ` (${hint})` : ""}`;
}

class FindingWidget extends WidgetType {
  constructor(finding) {
    super();
    this.severity = finding.severity === "error" ? "error" : "warning";
    this.words = words(finding);
  }

  // CodeMirror keeps the elements of equal widgets: a finding that stays does not flicker.
  eq(other) {
    return other.severity === this.severity && other.words === this.words;
  }

  get estimatedHeight() {
    return 22;
  }

  toDOM() {
    const box = document.createElement("div");
    box.className = `finding ${this.severity}`;
    const sign = document.createElement("span");
    sign.setAttribute("role", "img");
    sign.setAttribute("aria-label", this.severity);
    sign.textContent = signs[this.severity];
    const text = document.createElement("span");
    text.textContent = this.words;
    box.append(sign, text);
    return box;
  }
}

const underLines = EditorView.decorations.compute(["doc", findings], (state) => Decoration.set(
  state.field(findings).map(({ finding, from }) => {
    const widget = new FindingWidget(finding);
    return Decoration.widget({ widget, block: true, side: 1 }).range(state.doc.lineAt(from).to);
  }), true));

// next moves the cursor to the first finding behind it, after the last to the first one.
function next(view) {
  const { doc, selection } = view.state;
  const targets = view.state.field(findings).map((at) => ({ finding: at.finding, pos: targetOf(at, doc) }));
  if (targets.length === 0) return false;
  targets.sort((a, b) => a.pos - b.pos);
  const found = targets.find((target) => target.pos > selection.main.head) ?? targets[0];
  view.dispatch({
    selection: { anchor: found.pos },
    effects: [
      EditorView.scrollIntoView(found.pos, { y: "center" }),
      EditorView.announce.of(`${found.finding.severity} ${words(found.finding)}`),
    ],
  });
  view.focus();
  return true;
}

// The text keeps its bytes: lines end at \n alone, and a \r is a character that is shown. What is pasted may come
// from any system.
const bytes = [
  EditorState.lineSeparator.of("\n"),
  highlightSpecialChars({ addSpecialChars: /\r/g }),
  EditorView.clipboardInputFilter.of((text) => text.replace(/\r\n?/g, "\n")),
];

const refuseLargeFiles = EditorView.domEventHandlers({
  drop: (event) => [...event.dataTransfer.files].some((file) => file.size > maxDropped),
});

// What is typed in place of a selection is inserted here: the browser would keep the look of the replaced text by a
// style attribute, which the Content-Security-Policy stops.
const typeOverSelection = EditorView.domEventHandlers({
  beforeinput(event, view) {
    if (event.inputType !== "insertText" || event.data === null || view.state.selection.main.empty) return false;
    if (!view.state.readOnly) {
      view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
    }
    return true;
  },
});

// createEditor mounts an editor in the element parent, whose content it replaces, and returns what a page does with
// it. The page gives a label for readers of screens. onChange() is called after each change of the user, without the
// text: value() copies it, which takes time for a large one. A config that is no YAML has yaml: false.
export function createEditor(parent, { doc = "", readOnly = false, label, onChange = () => {}, yaml: isYAML = true }) {
  const root = parent.shadowRoot ?? parent.attachShadow({ mode: "open" });
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = new URL("editor.css", import.meta.url).href;
  const keys = document.createElement("p");
  keys.id = "keys";
  keys.textContent = `${readOnly ? "" : "Tab indents; Esc, then Tab leaves the editor. "}F8 goes to the next finding.`;

  const view = new EditorView({
    root,
    state: EditorState.create({
      doc,
      extensions: [
        bytes, theme, findings, underLines, refuseLargeFiles, typeOverSelection, lineNumbers(), highlightActiveLine(),
        highlightActiveLineGutter(), history(), indentOnInput(), bracketMatching(),
        syntaxHighlighting(classHighlighter), isYAML ? yaml() : [],
        keymap.of([{ key: "F8", run: next }, ...defaultKeymap, ...historyKeymap, indentWithTab]),
        EditorState.readOnly.of(readOnly),
        EditorView.contentAttributes.of({ "aria-label": label, "aria-describedby": keys.id }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !update.transactions.some((tr) => tr.annotation(fromPage))) onChange();
        }),
      ],
    }),
  });
  view.scrollDOM.tabIndex = 0; // a keyboard scrolls it
  link.addEventListener("load", () => view.requestMeasure());
  root.replaceChildren(link, view.dom, keys);

  return {
    // value returns the text.
    value: () => view.state.sliceDoc(),
    // setText replaces the text, which the user can undo, and removes the findings, which were about the old one.
    setText(text) {
      const changes = { from: 0, to: view.state.doc.length, insert: text };
      view.dispatch({ changes, effects: setFindings.of([]), annotations: fromPage.of(true) });
    },
    // setFindings replaces the findings. One without a line is not the editor's: the page shows it elsewhere.
    setFindings(list) {
      view.dispatch({ effects: setFindings.of(list.filter((finding) => finding.line > 0)) });
    },
    // nextFinding does what F8 does, and returns whether there is a finding.
    nextFinding: () => next(view),
    focus: () => view.focus(),
    // destroy removes the editor; another one can be mounted in the same element.
    destroy() {
      view.destroy();
      root.replaceChildren();
    },
  };
}
