// Which key was pressed, by its name on a US keyboard. A Latin letter, and the signs that other keyboards have elsewhere, count by
// what stands on the key: on a German keyboard Z is undo although it is where others have Y. All else goes by its place, so that
// Cyrillic letters and French digits work.
const SIGNS = { "=": "Equal", "'": "Quote", ",": "Comma" };

// Whether a key belongs to an input method that composes a word. Safari ends the composition before it says which key ended it.
export const composes = (event) => event.isComposing || event.keyCode === 229;

export const keyPlace = (event) => (/^[a-z]$/i.test(event.key) ? `Key${event.key.toUpperCase()}` : SIGNS[event.key] ?? event.code);
