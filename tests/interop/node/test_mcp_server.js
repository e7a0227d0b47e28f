// A published server of the Model Context Protocol, running in a sandbox as a managed process, and the
// official client, whose "server" is boxcli attach --stdio. with_boxd.py starts Box.
'use strict';
const assert = require('node:assert');
const { execFileSync, spawn } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, test: nodeTest } = require('node:test');

const [BIN, MODULES] = process.env.BOX_MCP.split('|');
const load = (name) => require(require.resolve(name, { paths: [MODULES] }));
const { Client } = load('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = load('@modelcontextprotocol/sdk/client/stdio.js');
const BOXCLI = path.join(BIN, 'boxcli');
const WAIT_MS = 30000; // for anything that should happen soon: a limit, not a pause
const SERVER = '@modelcontextprotocol/server-filesystem';
const test = (name, fn) => nodeTest(name, { timeout: 4 * WAIT_MS }, fn);
const environment = Object.fromEntries(Object.entries(process.env)
  .filter(([k]) => k.startsWith('BOX_') || k.endsWith('SAN_OPTIONS') || k === 'PATH'));
const boxcli = (...args) => execFileSync(BOXCLI, args, { encoding: 'utf8', env: environment });
const open = [];

// The folders of a package and of all it needs, as the lock file has them.
function closure(name) {
  const { packages } = JSON.parse(fs.readFileSync(path.join(MODULES, 'package-lock.json'), 'utf8'));
  const found = new Set();
  const add = (wanted, from) => {
    for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf('/node_modules/')))) {
      const place = `${at === '' ? '' : `${at}/`}node_modules/${wanted}`;
      if (packages[place]) {
        if (found.has(place)) return;
        found.add(place);
        Object.keys(packages[place].dependencies || {}).forEach((d) => add(d, place));
        return;
      }
      if (at === '') return; // an optional one
    }
  };
  add(name, '');
  // A package's folder holds those inside it.
  return [...found].filter((p) => ![...found].some((q) => p.startsWith(`${q}/`)));
}

const status = () => JSON.parse(boxcli('process', 'get', '--json', 'mcp', 'files')).process;

async function connect(args = ['attach', '--stdio', '--detach-on-eof', 'mcp', 'files']) {
  const client = new Client({ name: 'box-test', version: '1' });
  const transport = new StdioClientTransport({ command: BOXCLI, args, env: environment });
  await client.connect(transport);
  open.push(client);
  return { client, pid: transport.pid };
}

const text = (result) => result.content.map((c) => c.text).join('');

before(() => {
  boxcli('session', 'create', 'mcp', '--memory', '1GiB', '--workspace', '200MiB', '--pids', '200');
  const tar = execFileSync('tar', ['c', '-C', MODULES, ...closure(SERVER)], { maxBuffer: 2 ** 28 });
  execFileSync(BOXCLI, ['exec', 'mcp', '--', 'tar', 'x', '--no-same-owner', '-C', '/workspace'],
    { input: tar, env: environment });
  boxcli('exec', 'mcp', '--', 'mkdir', '/workspace/data');
  boxcli('process', 'start', 'mcp', '--id', 'files', '--', process.execPath,
    `/workspace/node_modules/${SERVER}/dist/index.js`, '/workspace/data');
});

after(async () => {
  for (const client of open) await client.close().catch(() => {});
  boxcli('session', 'delete', 'mcp');
});

test('handshake and calls', async () => {
  const { client } = await connect();
  const { tools } = await client.listTools();
  assert.ok(tools.some((t) => t.name === 'write_file'), tools.map((t) => t.name).join());
  const wrote = await client.callTool({ name: 'write_file',
    arguments: { path: '/workspace/data/note.txt', content: 'hé\n' } });
  assert.ok(!wrote.isError, text(wrote));
  assert.strictEqual(boxcli('exec', 'mcp', '--', 'cat', '/workspace/data/note.txt'), 'hé\n');
  const outside = await client.callTool({ name: 'read_text_file', arguments: { path: '/etc/passwd' } });
  assert.ok(outside.isError);
  await client.close();
});

test('a thousand requests, large ones among them', async () => {
  const { client } = await connect();
  const large = 'x'.repeat(300 * 1024);
  await client.callTool({ name: 'write_file', arguments: { path: '/workspace/data/large', content: large } });
  for (let round = 0; round < 20; round++) {
    const results = await Promise.all([...Array(50).keys()].map((i) => client.callTool({
      name: 'read_text_file', arguments: { path: `/workspace/data/${i === 0 ? 'large' : 'note.txt'}` } })));
    results.forEach((r, i) => assert.strictEqual(text(r), i === 0 ? large : 'hé\n'));
  }
  await client.close();
});

test('a client that is killed can be followed by another, and the server lives', async () => {
  const { client, pid } = await connect();
  const before = status();
  const calls = [...Array(20).keys()].map(() => client.callTool({
    name: 'read_text_file', arguments: { path: '/workspace/data/large' } }).catch((e) => e));
  process.kill(pid, 'SIGKILL');
  await Promise.all(calls);
  const again = await connect();
  const read = await again.client.callTool({ name: 'read_text_file',
    arguments: { path: '/workspace/data/note.txt' } });
  assert.strictEqual(text(read), 'hé\n');
  assert.deepStrictEqual([status().pid, status().startedAt], [before.pid, before.startedAt]);
  await again.client.close();
  assert.match(status().state, /RUNNING/);
});

// What a client's configuration names: the server as it lies on this machine, behind boxcli mcp-server run.
test('a server of this machine, by one command', async () => {
  const entry = ['mcp-server', 'run', '--session', 'mcp-run', '--id', 'files', '--memory', '1GiB', '--pids', '200',
    '--project', MODULES, '--', process.execPath, `${MODULES}/node_modules/${SERVER}/dist/index.js`, '/workspace'];
  const running = () => JSON.parse(boxcli('process', 'get', '--json', 'mcp-run', 'files')).process;
  try {
    const first = await connect(entry);
    const wrote = await first.client.callTool({ name: 'write_file',
      arguments: { path: '/workspace/note.txt', content: 'hé\n' } });
    assert.ok(!wrote.isError, text(wrote));
    const { pid } = running();
    process.kill(first.pid, 'SIGKILL');
    await first.client.close().catch(() => {});
    const again = await connect([...entry.slice(0, 2), '--take-over', ...entry.slice(2)]);
    const read = await again.client.callTool({ name: 'read_text_file', arguments: { path: '/workspace/note.txt' } });
    assert.strictEqual(text(read), 'hé\n');
    assert.strictEqual(running().pid, pid);
    await again.client.close();
    boxcli('mcp-server', 'stop', 'mcp-run', 'files');
    assert.match(running().state, /EXITED/);
  } finally {
    boxcli('session', 'delete', '--allow-missing', 'mcp-run');
  }
});

// Nothing ever falls back to the host: attaching, or starting, without Box fails with the reason.
async function refused(env, reason) {
  const marker = path.join(BIN, `on-the-host-${reason}`);
  for (const args of [['attach', '--stdio', 'mcp', 'files'],
    ['process', 'start', 'mcp', '--id', 'x', '--', 'touch', marker]]) {
    const child = spawn(BOXCLI, args, { env: { ...environment, ...env } });
    let said = '';
    child.stderr.on('data', (data) => { said += data; });
    const code = await new Promise((resolve) => child.on('close', resolve));
    assert.notStrictEqual(code, 0);
    assert.match(said, new RegExp(reason));
  }
  assert.ok(!fs.existsSync(marker));
}

test('with Box away it fails and says why', () =>
  refused({ BOX_ENDPOINT: 'unix:/no/such/socket' }, 'RUNTIME_UNAVAILABLE'));

test('with Box switched off it fails and says why', async () => {
  boxcli('init', '--disable');
  try {
    await refused({}, 'BOX_DISABLED');
  } finally {
    boxcli('init', '--enable');
  }
});
