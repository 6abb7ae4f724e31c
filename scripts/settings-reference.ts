// Writes docs/operations/settings.md: every setting of the control plane, from the table that reads it. `npm run gen` runs
// it, and a test fails when the page is not what it would write.
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Setting } from '../control-plane/src/settings/setting.ts'
import { ROWS } from '../control-plane/src/settings/table.ts'

export const SETTINGS_PAGE = fileURLToPath(
  new URL('../docs/operations/settings.md', import.meta.url),
)

const HEAD = `# Settings of the control plane

Generated from the code by \`npm run gen\`. Settings of the agent are in
[Operating Berth](operating.md#settings-of-the-agent).

Each setting has a key in \`/etc/berth/server.toml\` and a variable in the environment. The environment wins over the file,
and the file wins over the default. An empty variable counts as not set. In a variable, separate the parts of a list with
commas.

\`\`\`toml
url = "https://deploy.example.com"
data_dir = "/var/lib/berth-server"
trusted_proxies = ["127.0.0.1"]

[agents]
host = "0.0.0.0"

[mail]
smtp_url = "smtp://user:password@mail.example.com:587"
from = "Berth <berth@example.com>"
\`\`\`

\`berth-server config check\` shows each value, where it came from, and everything that is wrong. \`berth-server doctor\`
checks what the settings name: ports, host names, the mail server, the database, keys and certificates. Both take
\`--json\`. Restart the control plane after a change.

- **Which file.** \`BERTH_CONFIG_FILE\` names another file, which must exist. Set but empty, it means that no file is read.
  In development (\`BERTH_DEV=1\`, also \`npm start\`) and from a checkout (\`npm run control-plane\`), a file is read only if
  \`BERTH_CONFIG_FILE\` names it.
- **Secrets.** Settings marked as secret are never printed. If the file holds one, make it readable only by root and the
  account of the control plane: owner \`root\`, the group of that account, mode 0640. Otherwise the start warns.
- **Paths.** Write absolute paths. A relative one begins in the folder where the control plane was started.
`

const TITLES: Readonly<Record<string, string>> = {
  '': 'Top of the file',
  environment: 'Only in the environment',
}

const sectionOf = ({ key }: Setting): string => {
  if (key === undefined) return 'environment'
  return key.includes('.') ? (key.split('.')[0] ?? '') : ''
}

function renderRow(setting: Setting): string {
  const { key, variable, kind, without, description, secret } = setting
  const names = [...(key === undefined ? [] : [key.split('.').at(-1)]), variable]
  const named = names.map((name) => `\`${name}\``).join(', ')
  return `- ${named} (${kind.name}${secret ? ', secret' : ''}): ${description} Default: ${without}.`
}

export function renderSettings(): string {
  const sections = new Map<string, string[]>()
  for (const [, setting] of ROWS) {
    const section = sectionOf(setting)
    sections.set(section, [...(sections.get(section) ?? []), renderRow(setting)])
  }
  const parts = [...sections].map(
    ([section, rows]) => `## ${TITLES[section] ?? `\`[${section}]\``}\n\n${rows.join('\n')}\n`,
  )
  return [HEAD, ...parts].join('\n')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(SETTINGS_PAGE, renderSettings())
}
