// What the web console's editor (static/editor.js) uses of CodeMirror. Search and lint are left out: the browser's
// own search and the editor's own findings do, and lint draws its marks as data: images, which the console's
// Content-Security-Policy stops. Completion is left out as well: nothing completes a config here.
export { EditorState, StateEffect, StateField } from "@codemirror/state";
export {
  Decoration, EditorView, WidgetType, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap,
  lineNumbers,
} from "@codemirror/view";
export { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
export { bracketMatching, indentOnInput, syntaxHighlighting } from "@codemirror/language";
export { yaml } from "@codemirror/lang-yaml";
export { classHighlighter } from "@lezer/highlight";
