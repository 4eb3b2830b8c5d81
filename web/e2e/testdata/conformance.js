async (worker, anchor, vectors) => {
  const v = { ...await import(anchor), ...await import(worker) }, f0 = await (await fetch(vectors)).text(), all = v.parse(f0, 80), f = all.flight;
  let passed = 0;
  const failed = [], ran = new Set(), elsewhere = ['ratings', 'privateKey', 'stream', 'agent']; // made by a recorder or a node, never read by the verifier
  const check = (path, got, want) => {
    ran.add(path.replace(/[.[].*/, ''));
    const [g, w] = [got, want].map((x) => x === undefined ? 'nothing' : v.canonicalJson(x));
    if (g === w) passed++; else failed.push(`${path}: got ${g}, want ${w}`);
  };
  const attempt = (run) => { try { return run(); } catch (e) { return e.code ?? String(e); } };
  const each = (list, path, run) => list.forEach((x, i) => run(x, `${path}[${i}]`));
  const keccak = (x) => v.hex(v.keccak256(x));

  each(all.canonicalJson.cases, 'cases', (c, p) => {
    check(`${p}.canonical`, attempt(() => v.canonicalJson(v.parse(c.raw))), c.canonical);
    check(`${p}.keccak`, keccak(c.canonical), c.keccak);
  });
  each(all.canonicalJson.errors, 'errors', (c, p) => check(p, attempt(() => v.canonicalJson(v.parse(c.rawHex ? v.unhex(c.rawHex) : c.raw))), c.code));
  each(f.commits, 'commits', (c, p) => {
    check(`${p}.canonical`, attempt(() => v.canonicalJson(v.parse(c.raw))), c.canonical);
    check(`${p}.commitment`, attempt(() => v.commit(v.parse(c.raw), c.salt)), c.commitment);
  });
  each(f.claims, 'claims', (c, p) => check(p, attempt(() => v.checkClaim(c)), true));
  each(f.steps, 'steps', (s, p) => {
    check(`${p}.canonical`, attempt(() => v.canonicalJson(v.checkStep(s.step))), s.canonical);
    check(`${p}.stepHash`, v.stepHash(s.step), s.stepHash);
    check(`${p}.leaf`, v.leafHash(s.stepHash), s.leaf);
    for (const field of Object.keys(s.openings)) check(`${p}.openings.${field}`, attempt(() => v.commit(s.openings[field].value, s.openings[field].salt)), s.step[field]);
  });
  const batch = (b, p) => {
    check(`${p}.batchId`, v.batchId(b.header), b.batchId);
    check(`${p}.eip191Text`, v.batchText(b.header), b.eip191Text);
    for (const scheme of Object.keys(b.signatures)) check(`${p}.signatures.${scheme}`, attempt(() => v.batchSigner({ header: b.header, scheme, signature: b.signatures[scheme] })), b.header.agent);
  };
  each(f.batches, 'batches', (b, p) => { batch(b, p); check(`${p}.header`, attempt(() => v.checkHeader(b.header)), b.header); });
  const signer = (s) => attempt(() => v.batchSigner({ header: f.signatureForms.header, scheme: 'eip712', signature: s.signature }));
  each(f.signatureForms.accept, 'signatureForms.accept', (s, p) => { check(p, signer(s), f.signatureForms.header.agent); check(`${p} kept`, v.decodeSignature(s.signature).signature, f.signatureForms.accept[0].signature); });
  each(f.signatureForms.reject, 'signatureForms.reject', (s, p) => check(p, signer(s), 'SIGNATURE'));
  each(f.notEquivocations, 'notEquivocations', (e, p) => { batch(e.a, `${p}.a`); batch(e.b, `${p}.b`); check(p, v.conflict(e.a.header, e.b.header), null); });
  each(f.impossible, 'impossible', (e, p) => { let field = null; try { v.checkHeader(e.header); } catch (err) { field = err.field; } check(p, field, e.field); });

  // Whole documents go in as text, through the entry that the pages use.
  const examine = async (document) => { const { ok, code, rows } = await v.examine(JSON.stringify(document)); return ok ? null : rows.length ? code : 'BAD_REQUEST'; };
  const statement = (b) => ({ header: b.header, scheme: 'eip712', signature: b.signatures.eip712 });
  for (const [i, e] of f.equivocations.entries()) {
    const p = `equivocations[${i}]`;
    batch(e.a, `${p}.a`);
    batch(e.b, `${p}.b`);
    check(`${p}.reason`, v.conflict(e.a.header, e.b.header), e.reason);
    check(`${p} examined`, await examine({ type: 'karatum.equivocation.v1', reason: e.reason, a: statement(e.a), b: statement(e.b) }), null);
  }
  check('brokenChain', await examine(f.brokenChain), null);
  for (const [i, d] of f.disclosures.entries()) check(`disclosures[${i}]`, await examine(d), null);
  for (const [i, t] of f.tampered.entries()) check(`tampered[${i}] ${t.why}`, await examine(t.disclosure), t.code);
  const r = Object.fromEntries(f.receipt.text.split('\n').slice(1).map((l) => l.split(': ')).map(([k, x]) => [k, k === 'batchId' ? x : Number(x)]));
  check('receipt.text', v.receiptText(r), f.receipt.text);
  check('receipt', await examine({ ...r, node: f.receipt.node, signature: f.receipt.signature }), null);
  const g = f.receiptGroup;
  check('receiptGroup.items', g.texts.map(keccak), g.items);
  for (const [i, proof] of g.proofs.entries()) check(`receiptGroup.proofs[${i}]`, attempt(() => v.foldProof(g.items[i], proof.index, proof.size, proof.siblings).root), g.root);
  check('receiptGroup.signature', attempt(() => v.recover(v.textDigest(g.text), g.signature)), f.receipt.node);
  each(f.merkle, 'merkle', (t, p) => each(t.proofs, `${p}.proofs`, (proof, q) => check(q, attempt(() => v.foldProof(t.items[proof.index], proof.index, proof.size, proof.siblings).root), t.root)));
  check('epoch.schema', v.SCHEMA, f.epoch.schema);
  check('epoch.schemaUid', v.SCHEMA_UID, f.epoch.schemaUid);
  check('epoch.attestationData', v.attestationData(f.epoch.root, f.epoch.batchIds.length), f.epoch.attestationData);
  check('epoch.attestCalldata', v.attestCalldata(f.epoch.root, f.epoch.batchIds.length), f.epoch.attestCalldata);
  for (const [i, proof] of f.epoch.proofs.entries()) {
    check(`epoch.proofs[${i}]`, await examine({ batchId: f.epoch.batchIds[i], epoch: { root: f.epoch.root, batchCount: f.epoch.batchIds.length }, proof, anchor: null }), null);
  }
  return JSON.stringify({ passed, failed, notCovered: [...Object.keys(f), ...Object.keys(all.canonicalJson)].filter((k) => !ran.has(k) && !elsewhere.includes(k)) });
}
