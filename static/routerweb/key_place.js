// Which key was pressed, by its name on a US keyboard. A Latin letter, and the two signs that other keyboards have elsewhere, count by
// what stands on the key: on a German keyboard Z is undo although it is where others have Y. All else goes by its place, so that
// Cyrillic letters and French digits work.
const SIGNS = { "=": "Equal", "'": "Quote" };

export const keyPlace = (event) => (/^[a-z]$/i.test(event.key) ? `Key${event.key.toUpperCase()}` : SIGNS[event.key] ?? event.code);
