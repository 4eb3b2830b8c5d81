// A small MCP server made with the TypeScript SDK.
import { pathToFileURL } from 'node:url';
const sdk = (path) => import(pathToFileURL(`${process.argv[2]}/${path}`));
const { Server } = await sdk('server/index.js');
const { StdioServerTransport } = await sdk('server/stdio.js');
const { CallToolRequestSchema, EmptyResultSchema, ListToolsRequestSchema } = await sdk('types.js');

const server = new Server({ name: 'small', version: '1' }, { capabilities: { tools: {} } });
const tools = ['add', 'fail', 'pay'].map((name) => ({ name, inputSchema: { type: 'object' } }));
server.setRequestHandler(ListToolsRequestSchema, async () => ({ tools }));
server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
  const { name, arguments: args } = params;
  if (name === 'fail') return { content: [{ type: 'text', text: 'no' }], isError: true };
  if (name === 'pay') {
    for (let progress = 1; progress <= 3; progress++) {
      await extra.sendNotification({ method: 'notifications/progress', params: { progressToken: params._meta.progressToken, progress, total: 3 } });
    }
    await extra.sendRequest({ method: 'ping' }, EmptyResultSchema); // the client has handled what came before
    return { content: [], structuredContent: { txHash: '0x' + 'ab'.repeat(32) } };
  }
  return { content: [{ type: 'text', text: String(args.a + args.b) }] };
});
await server.connect(new StdioServerTransport());
