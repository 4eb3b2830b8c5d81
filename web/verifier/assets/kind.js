// Which file checks a document.

/** What a document seems to be, by its keys: the file for that kind may still refuse it. */
export function kindOf(text) {
  try {
    const v = JSON.parse(text), keys = Object.keys(v).sort().join(' ');
    return /^(disclosure( proof)?|batch proof reveal step)$/.test(keys) ? 'record' : keys === 'a b reason type' && v.reason !== 'BROKEN_CHAIN' ? 'evidence' : 'any';
  } catch { return 'any'; }
}
