// On /verify and in the offline page, once there is a document: the panel, and what the document holds.

import { check } from './choose.js';
import { makePanel } from './panel.js';
import { make, visible } from './words.js';

/** The panel as show(text, name), which resolves to what makes a document none, to "", or to null where another came meanwhile. */
export function makeView(root) {
  const panel = makePanel(root, check, lay), opened = document.querySelector('[data-opened]');

  /** Puts the rows of a result into the list, in the order of the template. */
  function lay(rows) {
    if (rows.every((r) => panel.row(r.id)) && panel.all('.checks > li').length === rows.length) return;
    const every = panel.one('template[data-rows]').content.cloneNode(true), ids = rows.map((r) => r.id);
    for (const li of every.querySelectorAll('[data-check]')) if (!ids.includes(li.dataset.check)) li.remove();
    panel.one('.checks').replaceChildren(every);
    panel.settle();
  }

  /** Forgets the document. */
  function clear() {
    panel.header('idle', 'Not checked yet', 'Waiting for a document');
    panel.one('.checks').replaceChildren();
    panel.clean?.();
    for (const e of [panel.one('.forge'), panel.one('[data-again]'), panel.one('[data-save]').closest('li'), opened]) e.hidden = true;
  }

  /** Shows what was checked: a verdict about something unseen would be worth little. */
  function describe(v, { unchecked = [], kinds = v.a ? ['evidence'] : v.disclosure ? Object.keys(v) : ['disclosure'] }) {
    const d = kinds.includes('disclosure') ? v.disclosure ?? v : null;
    const rows = [['Parts', kinds.join(', ')]];
    if (d?.step) {
      rows.push(['Step', `${d.step.seq} of stream ${d.step.stream}`], ['Agent', d.step.agent, 'mono'], ['Says', [d.step.kind, d.step.name, d.step.status].filter(Boolean).join(', ')]);
      for (const [field, { value }] of Object.entries(d.reveal)) rows.push([`Opened ${field}`, JSON.stringify(value, null, 2), 'mono']);
    }
    if (unchecked.length) rows.push(['Not checked', `${unchecked.join(', ')}: only the node’s word`]);
    opened.querySelector('dl').replaceChildren(...rows.map(([k, t, look = '']) => make('div', {}, make('dt', {}, visible(k)), make('dd', {}, make('bdi', { class: `name ${look}` }, visible(t).slice(0, 20000))))));
    opened.hidden = false;
  }

  return async (text, name) => {
    const result = await panel.show(text, name);
    if (!result) return null;
    if (!result.rows.length) { clear(); return `${visible(result.why)}.`; }
    for (const shown of panel.all('code[data-file], span[data-file]')) shown.textContent = name;
    describe(JSON.parse(text), result);
    return '';
  };
}
