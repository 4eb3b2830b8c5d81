// Which file checks a document.

/** What a document seems to be, by its keys: the file for that kind may still refuse it. */
export function kindOf(text) {
  try {
    const keys = Object.keys(JSON.parse(text)).sort().join(' ');
    return /^(disclosure( proof)?|batch proof reveal step)$/.test(keys) ? 'record' : keys === 'a b reason type' ? 'evidence' : 'any';
  } catch { return 'any'; }
}
