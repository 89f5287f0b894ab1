// The editor of configs: CodeMirror, with each finding under its line.
//
// It is mounted in a shadow root, where CodeMirror adopts its style sheets: in the document it would write <style>
// elements, which the Content-Security-Policy stops. Own colours are in editor.css, and in console.css.
import {
  Decoration, EditorState, EditorView, StateEffect, StateField, WidgetType, bracketMatching,
  classHighlighter, defaultKeymap, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, history,
  historyKeymap, indentOnInput, indentWithTab, keymap, lineNumbers, syntaxHighlighting, yaml,
} from "./vendor/codemirror.js";

// These colours replace CodeMirror's own, which are stronger than what a style sheet in the shadow root says. The
// sizes are here so that they hold before editor.css is there.
const theme = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--ground)", maxHeight: "70vh" },
  "&.cm-focused": { outline: "2px solid var(--link)" },
  ".cm-scroller": { overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-gutters": { color: "var(--quiet)", backgroundColor: "var(--raised)", borderColor: "var(--edge)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--editor-line)" },
  ".cm-specialChar": { color: "var(--failing)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--editor-match)" },
  "&.cm-focused .cm-nonmatchingBracket": { backgroundColor: "var(--editor-line)", color: "var(--failing)" },
});

const setFindings = StateEffect.define();

// The findings, each under its line, with which it moves until new findings come.
const findings = StateField.define({
  create: () => Decoration.none,
  update(shown, tr) {
    const effect = tr.effects.find((e) => e.is(setFindings));
    return effect ? Decoration.set(effect.value.map((f) => underLine(f, tr.newDoc)), true) : shown.map(tr.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

// A line that the text no longer has is its last line: the text may have changed since it was compiled.
function underLine(finding, doc) {
  const { to } = doc.line(Math.min(finding.line, doc.lines));
  return Decoration.widget({ widget: new FindingWidget(finding), block: true, side: 1 }).range(to);
}

class FindingWidget extends WidgetType {
  constructor({ severity, line, column, path, message, hint }) {
    super();
    this.severity = severity === "error" ? "error" : "warning";
    const place = column ? `${line}:${column}` : `${line}`;
    const about = path && path !== "$" ? `${path}: ` : "";
    this.words = `${this.severity} ${place} ${about}${message}${hint ? ` (${hint})` : ""}`;
  }

  // CodeMirror keeps the elements of equal widgets: a finding that stays does not flicker.
  eq(other) {
    return other.words === this.words;
  }

  toDOM() {
    const box = document.createElement("div");
    box.className = `finding ${this.severity}`;
    box.textContent = `${this.severity === "error" ? "!" : "?"} ${this.words}`;
    return box;
  }
}

// next moves the cursor to the next line with a finding, after the last to the first one.
function next(view) {
  const { doc, selection } = view.state;
  const targets = [];
  view.state.field(findings).between(0, doc.length, (to, _, { spec }) => {
    targets.push({ pos: doc.lineAt(to).from, words: spec.widget.words });
  });
  if (targets.length === 0) return false;
  const found = targets.find((target) => target.pos > selection.main.head) ?? targets[0];
  view.dispatch({
    selection: { anchor: found.pos },
    effects: [EditorView.scrollIntoView(found.pos, { y: "center" }), EditorView.announce.of(found.words)],
  });
  view.focus();
  return true;
}

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

// createEditor mounts an editor in the element parent, and returns what a page does with it. The page gives a label for
// readers of screens. onChange() is called after each change, without the text: value() copies it, which takes time for
// a large one. A config that is no YAML has yaml: false.
export function createEditor(parent, { doc, readOnly, label, onChange, yaml: isYAML }) {
  const root = parent.attachShadow({ mode: "open" });
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
        theme, findings, typeOverSelection, lineNumbers(), highlightActiveLine(), highlightActiveLineGutter(),
        highlightSpecialChars(), history(), indentOnInput(), bracketMatching(), syntaxHighlighting(classHighlighter),
        isYAML ? yaml() : [],
        keymap.of([{ key: "F8", run: next }, ...defaultKeymap, ...historyKeymap, indentWithTab]),
        EditorState.readOnly.of(readOnly),
        EditorView.contentAttributes.of({ "aria-label": label, "aria-describedby": keys.id }),
        EditorView.updateListener.of((update) => update.docChanged && onChange()),
      ],
    }),
  });
  view.scrollDOM.tabIndex = 0; // a keyboard scrolls it
  link.addEventListener("load", () => view.requestMeasure());
  root.replaceChildren(link, view.dom, keys);

  return {
    value: () => view.state.sliceDoc(),
    length: () => view.state.doc.length,
    setFindings: (list) => view.dispatch({ effects: setFindings.of(list) }),
    nextFinding: () => next(view), // as F8 does
  };
}
