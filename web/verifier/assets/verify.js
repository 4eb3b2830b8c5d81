// On /verify and in the offline page: takes a document by drop, paste, file or fragment. Nothing leaves the page.

const MAX_BYTES = 10 << 20;
const at = (selector) => document.querySelector(selector);
const root = at('[data-verify]'), box = at('#document'), error = at('[data-error]'), zone = at('[data-drop]');
let view;

/** Checks a document, given as text or bytes, or says what is wrong with it. What checks and shows it is loaded now. */
async function take(input, name = 'document.json') {
  complain('');
  let text = input;
  if ((input.byteLength ?? input.length) > MAX_BYTES) return complain(`This is over ${MAX_BYTES >> 20} MB; use karatum verify.`);
  if (typeof input !== 'string') {
    try { text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(input); } catch { return complain('This is not UTF-8 text.'); }
  }
  if (!text.trim()) return complain('There is nothing to check yet. Drop, choose or paste a JSON document.');
  if (box.value !== text) box.value = text;
  view ??= import('./view.js').then((v) => v.makeView(root)).catch(() => { view = null; });
  const show = await view, why = show ? await show(text, name) : 'What shows it could not be loaded.';
  return why === null ? null : complain(why);
}

function complain(text) {
  error.textContent = text;
  error.hidden = !text;
  box.setAttribute('aria-invalid', String(Boolean(text)));
}

const takeFile = async (file) => take(file.size > MAX_BYTES ? { byteLength: file.size } : new Uint8Array(await file.arrayBuffer()), file.name);

/** A fragment holds base64url, or JSON as it is or percent-encoded. */
async function takeFragment() {
  const fragment = location.hash.slice(1);
  if (!fragment) return null;
  try {
    return await take(/^(%7b|\{)/i.test(fragment) ? new TextEncoder().encode(decodeURIComponent(fragment))
      : Uint8Array.from(atob(fragment.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0)));
  } catch { return complain('The part of the address after # is no document: it must be base64url or JSON.'); }
}

at('[data-check-form]').addEventListener('submit', (e) => { e.preventDefault(); take(box.value); });
at('#file').addEventListener('change', (e) => { if (e.target.files[0]) takeFile(e.target.files[0]); e.target.value = ''; });
for (const kind of ['dragover', 'dragleave', 'drop']) {
  document.addEventListener(kind, (e) => {
    e.preventDefault();
    zone.classList.toggle('over', kind === 'dragover');
    if (kind !== 'drop') return;
    const { files } = e.dataTransfer, text = e.dataTransfer.getData('text');
    if (files.length > 1) complain('One file at a time, please; parts can be joined in one as {"disclosure": …, "proof": …}.');
    else if (files.length) takeFile(files[0]);
    else if (text) take(text);
  });
}
addEventListener('hashchange', takeFragment);
at('[data-sub]').textContent = 'Waiting for a document';
await takeFragment();
root.dataset.ready = '';
