// berth project trust-host-key: a forge changed its SSH host key. Shows the known and the new fingerprints, asks, and
// trusts exactly the shown one: on the control plane and, with the next deployment, on every server.
import { randomUUID } from 'node:crypto'
import { ForgeHostKey } from '@berth/shared/api'
import { findProject } from '../../client/resolve.ts'
import { type Context, compose, flagText, type Invocation } from '../../context.ts'
import { CliError, EXIT, type ExitCode, usage } from '../../terminal/exit.ts'
import { cleanText } from '../../terminal/text.ts'
import { confirmYes } from '../prompt.ts'

interface HostKeyOptions {
  project: string | undefined
  fingerprint: string | undefined
}

function parseProjectHostKey({ args, flags, globals }: Invocation): HostKeyOptions {
  const fingerprint = flagText(flags, 'fingerprint')
  if (fingerprint !== undefined && !/^SHA256:[A-Za-z0-9+/]{43}$/.test(fingerprint)) {
    throw usage('--fingerprint is not valid', 'give it as ssh-keygen -l shows it: SHA256:…')
  }
  return { project: args[0] ?? globals.project, fingerprint }
}

const lines = (keys: ForgeHostKey['known']): string[] =>
  keys.length === 0 ? ['  none'] : keys.map((key) => `  ${key.fingerprint} (${key.type})`)

/** The requested fingerprint; otherwise the strongest of the forge, which is listed first. */
function choose(seen: ForgeHostKey, fingerprint: string | undefined): string {
  if (seen.host === null) {
    throw new CliError(EXIT.refused, 'its repository is not read over ssh: there is no host key')
  }
  if (seen.error) throw new CliError(EXIT.refused, cleanText(seen.error.message))
  const chosen = fingerprint
    ? seen.offered.find((key) => key.fingerprint === fingerprint)
    : (seen.offered.find((key) => key.type === 'ssh-ed25519') ?? seen.offered[0])
  if (chosen) return chosen.fingerprint
  const shown = seen.offered.map((key) => key.fingerprint).join(', ')
  throw new CliError(EXIT.refused, `${seen.host} has no such key; it has ${shown}`)
}

async function performProjectHostKey(options: HostKeyOptions, context: Context): Promise<ExitCode> {
  const { screen } = context
  const api = await context.connect()
  const globals = { ...context.globals, project: options.project }
  const project = await findProject(api, { ...context, globals }, 'change')
  const path = `/api/projects/${project.id}/host_key`
  const { value: seen } = await api.get(path, ForgeHostKey)
  const fingerprint = choose(seen, options.fingerprint)
  const how = { trusted: 'trusted', first_use: 'seen first', none: '' }[seen.trust]
  const text = [
    `Known host keys of ${seen.host}${how ? ` (${how})` : ''}:`,
    ...lines(seen.known),
    'Host keys it shows now:',
    ...lines(seen.offered),
  ]
  await screen.note(text.map(cleanText).join('\n'))
  const isKnown = seen.trust === 'trusted' && seen.known[0]?.fingerprint === fingerprint
  if (!isKnown) {
    await confirmYes(
      context,
      `Compare ${fingerprint} with what the forge publishes. Trust it for ${project.name} on every server?`,
    )
  }
  const { value, raw } = await api.post(path, ForgeHostKey, {
    body: { fingerprint },
    idempotencyKey: randomUUID(),
    expect: 200,
  })
  await screen.note(`${screen.err.paint('green', '✓')} ${cleanText(`${value.host} is trusted.`)}`)
  if (screen.json) await screen.printJson(raw)
  else if (!screen.human) await screen.print(`${value.host}\t${fingerprint}`)
  return EXIT.done
}

export const projectHostKey = compose(parseProjectHostKey, performProjectHostKey)
