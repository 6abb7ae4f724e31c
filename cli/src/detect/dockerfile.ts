// A Dockerfile that the repository has: its port and what checks it. PURE.
import type { Draft } from './app.ts'

const isPort = (value: number): boolean => Number.isInteger(value) && value >= 1 && value <= 65_535

/** Resolves `$PORT`, `${PORT}`, `${PORT:-3000}` with the preceding ARG and ENV. */
function resolvePort(word: string, known: ReadonlyMap<string, string>): number | null {
  const variable = /^\$\{?([A-Za-z_]\w*)(?::-(\d+))?\}?/.exec(word)
  const text = variable ? (known.get(variable[1] ?? '') ?? variable[2] ?? '') : word
  const match = /^(\d{1,5})(?:-\d{1,5})?(?:\/(tcp|udp))?$/i.exec(text)
  if (!match || match[2]?.toLowerCase() === 'udp') return null
  const port = Number(match[1])
  return isPort(port) ? port : null
}

/** The first port of the last stage; null: none is exposed. */
export function exposedPort(dockerfile: string): number | null {
  const known = new Map<string, string>()
  let port: number | null = null
  const joined = dockerfile.replace(/\\[ \t]*\r?\n/g, ' ')
  for (const line of joined.split(/\r?\n/)) {
    const [, instruction = '', rest = ''] = /^\s*([A-Za-z]+)\s+(.*)$/.exec(line) ?? []
    const words = rest.trim().split(/\s+/)
    switch (instruction.toUpperCase()) {
      case 'FROM':
        port = null
        break
      case 'ARG':
      case 'ENV': {
        if (words.length === 2 && !rest.includes('=')) known.set(words[0] ?? '', words[1] ?? '')
        for (const [name, value] of words.map((word) => word.split('='))) {
          if (name && value) known.set(name, value.replace(/^(["'])(.*)\1$/, '$2'))
        }
        break
      }
      case 'EXPOSE':
        port ??= words.map((word) => resolvePort(word, known)).find((one) => one !== null) ?? null
    }
  }
  return port
}

/** `dockerfile` null: there is none yet, and nothing says what it should hold. */
export function ownDockerfileDraft(dockerfile: string | null, guessed: number | null): Draft {
  const exposed = dockerfile === null ? null : exposedPort(dockerfile)
  const port = exposed ?? guessed
  const reasons =
    dockerfile === null
      ? ['There is no Dockerfile yet: docker builds from one. Add it, or name an image instead.']
      : ['Found Dockerfile: the docker recipe builds it.']
  if (exposed !== null) reasons.push(`It exposes port ${exposed}: that is where requests go.`)
  else if (guessed !== null) reasons.push(`The sources listen on port ${guessed}.`)
  else reasons.push('Port 3000 is a guess: put the one your program listens on.')
  const note = port === null ? ' # the port inside the container that your program listens on' : ''
  return {
    recipe: 'docker',
    reasons,
    files: [],
    variables: [],
    notConverted: [],
    problem:
      dockerfile === null
        ? 'Nothing here says how it runs: add a Dockerfile, a compose file or a Procfile.'
        : null,
    lines: [
      'docker:',
      '  services:',
      "    web: # serves the environment's own address",
      '      build: . # the folder with the Dockerfile',
      `      port: ${port ?? 3000}${note}`,
      '      # health: /up # answers 2xx when it is ready; without it a connection is enough',
      '      # release: npm run migrate # once per deployment, before the new version serves',
    ],
  }
}
