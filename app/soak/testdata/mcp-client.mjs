// Calls the tools of mcp-server.mjs through whatever command it is given.
import { pathToFileURL } from 'node:url';
const [modules, command, ...args] = process.argv.slice(2);
const sdk = (path) => import(pathToFileURL(`${modules}/${path}`));
const { Client } = await sdk('client/index.js');
const { StdioClientTransport } = await sdk('client/stdio.js');

const client = new Client({ name: 'caller', version: '1' });
await client.connect(new StdioClientTransport({ command, args }));
const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
console.log('tools', (await client.listTools()).tools.map((t) => t.name).join());
console.log('sum', (await call('add', { a: 2, b: 3 })).content[0].text);
console.log('failed', (await call('fail', {})).isError);
const seen = [];
const paid = await call('pay', { to: '0x' + '11'.repeat(20), wei: '1000' }, { onprogress: (p) => seen.push(p.progress) });
console.log('progress', seen.join());
console.log('paid', paid.structuredContent.txHash === '0x' + 'ab'.repeat(32));
await client.close();
