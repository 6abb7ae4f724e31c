// Generates the client's reference page, docs/reference/client.md, from the command table, so that it always matches the program.
import { EXIT_MEANINGS } from '../terminal/exit.ts'
import { COMMANDS } from './program.ts'
import { type CommandSpec, type FlagSpec, GLOBAL_FLAGS, GROUPS } from './spec.ts'

const INTRODUCTION = `# The client \`berth\`

<!-- Made from cli/src/program/program.ts by cli/src/program/reference.ts; cli/src/program/reference.test.ts keeps it fresh (vitest --update writes it). -->

## Install

\`\`\`sh
curl -fsSL https://deploy.example.com/install-cli.sh | sh
\`\`\`

Your control plane serves this script; the dashboard shows the line under **Account**. On Linux and macOS it installs
\`berth\` into \`~/.local/bin\` (as root into \`/usr/local/bin\`, or into \`BERTH_BIN_DIR\`), with completions for the shells
that have a folder for them. The client needs Node.js 18 or newer. On Linux (x64, arm64) without it, the script also fetches
a Node.js for \`berth\` alone. Run the line again to update, or with \`| sh -s -- --uninstall\` to remove it. On every other
system, download \`https://deploy.example.com/cli/berth.cjs\` (its checksum is at \`/cli/SHA256SUMS\`) and run it with Node.js.

## How it behaves

Data goes to stdout, everything else to stderr. On a terminal lists are tables with relative times; in a pipe, or with
\`CI=true\`, they are tab-separated without a header, ids first, with ISO times and full hashes; \`--json\` prints the API's JSON
as one document, and one document a line for streams (\`logs\`, \`tasks log -f\`). An error is a line \`{"error": …}\` there, with \`message\`,
\`hint\`, \`exit_code\`, and the server's \`code\`, \`status\` and \`request_id\`. \`NO_COLOR\`, \`CLICOLOR=0\`, \`--no-color\` and
\`TERM=dumb\` leave no escape byte in either stream. What cannot be undone asks for the name of the thing (\`--confirm NAME\`),
other questions take \`--yes\`; without a terminal nothing is ever asked.

**Which project, which environment**: the flag, then \`BERTH_PROJECT\` and \`BERTH_ENV\`, then \`.berth/project.json\` (\`berth link\`),
then the git remotes of the folder. \`-e\` takes an identifier, a pull request (\`42\`, \`#42\`), \`id:42\` or a branch. Commands that
change something take no prefix.

**Which control plane**: \`--url\`, then \`BERTH_URL\`, then the folder's link, then the current one: that of the last login or
\`berth context use\`. A link counts only where you are logged in. Where you know several, a command that changes something
says which one.

**Waiting**: the exit code of \`--wait\` is the task's final status, read over plain HTTP. A lost connection or a control plane that
restarts only costs time; Ctrl-C and \`--timeout\` end the wait, never the task.

**Over SSH** (\`logs\`, \`ssh\`, \`artifacts download\`): each connection has a key and a certificate of its own, valid five minutes, in a
folder that goes with it. The system's \`ssh\` runs with nothing of your configuration, agent or known hosts; the host
authority comes with the certificate, so nothing is ever asked. Logs of services reach back as far as they are kept.

**Variables**: \`BERTH_TOKEN\`, \`BERTH_TOKEN_FILE\`, \`BERTH_URL\`, \`BERTH_ORG\`, \`BERTH_PROJECT\`, \`BERTH_ENV\`, \`BERTH_CONFIG_DIR\`,
\`BERTH_CACERT\`, \`BERTH_DEBUG\` (\`1\`: stack traces, \`api\`: requests), \`NO_COLOR\`, \`CLICOLOR\`, \`CLICOLOR_FORCE\`, \`FORCE_COLOR\`, \`CI\`.
`

const escaped = (text: string): string => text.replaceAll('|', '\\|')

function flagRows(flags: readonly FlagSpec[]): string[] {
  const rows = flags.map((flag) => {
    const more = [flag.required ? 'required' : '', flag.repeat ? 'repeatable' : '']
    const note = more.filter(Boolean).join(', ')
    return `| \`${flag.flags}\` | ${escaped(flag.summary)}${note ? ` (${note})` : ''} |`
  })
  return rows.length === 0 ? [] : ['', '| Flag | |', '|---|---|', ...rows]
}

/** `berth ssh`, not the default command that the table has for it. */
function titleOf({ path, args }: CommandSpec): string {
  const [group = '', verb = ''] = path.split(' ')
  const isBare = verb !== '' && GROUPS[group]?.fallback === verb
  const name = isBare ? (verb === 'list' ? `${group} [list]` : group) : path
  return `berth ${name}${args ? ` ${args}` : ''}`
}

function section(spec: CommandSpec): string[] {
  const examples = ['', '```sh', ...spec.examples, '```']
  const head = [`### \`${titleOf(spec)}\``, '', `${spec.summary}.`]
  return ['', ...head, ...flagRows(spec.flags ?? []), ...examples]
}

export function referencePage(): string {
  const aliases = Object.entries(GROUPS)
    .filter(([, group]) => group.aliases.length > 0)
    .map(([name, group]) => `\`${name}\` = \`${group.aliases.join('`, `')}\``)
  const lines = [
    INTRODUCTION,
    '## Exit codes',
    '',
    '| Code | |',
    '|---|---|',
    ...EXIT_MEANINGS.map(([code, meaning]) => `| ${code} | ${escaped(meaning)} |`),
    '',
    '`berth ssh -- COMMAND` passes the exit code of the command through; a connection that failed is 1.',
    '',
    '## Global options',
    ...flagRows(GLOBAL_FLAGS),
    '',
    `The same command under two names: ${aliases.join(', ')}.`,
    '',
    '## Commands',
    ...COMMANDS.flatMap(section),
  ]
  return `${lines.join('\n')}\n`
}
