// berth ssh: a shell or one command in an environment, or on a whole server; and a certificate for the user's own key.
// The words after `--` are sent as one encoded argument list, so no shell quoting is needed. A single word that only a
// shell understands is a command line, as with ssh.
import { readFile, stat, writeFile } from 'node:fs/promises'
import type { Api } from '../../client/api.ts'
import { findTarget, targetName } from '../../client/resolve.ts'
import {
  NO_CONNECTION,
  runAttached,
  SSH_NO_AGENT,
  SSH_NOT_AVAILABLE,
  SSH_REFUSED,
} from '../../client/ssh/run.ts'
import {
  requestCertificate,
  type SshEndpoint,
  type SshPlace,
  withCertificate,
} from '../../client/ssh/ssh.ts'
import { type Context, compose, flagText, type Invocation } from '../../context.ts'
import { CLIENT } from '../../limits/client.ts'
import { CliError, EXIT, type ExitCode, interrupted, usage } from '../../terminal/exit.ts'
import { formatSpan } from '../../terminal/format.ts'
import { cleanText } from '../../terminal/text.ts'
import { parseServices, requireServices } from '../deployments/logs.ts'
import { findServer } from '../servers/servers.ts'

interface SshOptions {
  server: string | undefined
  service: string | undefined
  command: readonly string[]
}

function parseSsh({ args, rest, flags, globals }: Invocation): SshOptions {
  if (args.length > 0) {
    throw usage(`unknown word '${args[0]}'`, `a command stands after --: berth ssh -- ${args[0]}`)
  }
  const server = flagText(flags, 'server')
  const service = flagText(flags, 'service')
  const command = rest ?? []
  if (server !== undefined && globals.env === undefined) {
    if (service !== undefined) throw usage('-s names a service of an environment: add -e ENV')
    if (command.length > 0) throw usage('a whole server has a shell only; with -e ENV a command')
  }
  if (service !== undefined) parseServices([service])
  return { server, service, command }
}

interface Where {
  place: SshPlace
  /** 'shop / pr-42 on fra-1' */
  name: string
}

/** `--server` alone is the whole server; with -e it must be the environment's server. */
async function findPlace(
  context: Context,
  api: Api,
  server: string | undefined,
  purpose: 'read' | 'change',
  service?: string,
): Promise<Where> {
  if (server !== undefined && context.globals.env === undefined) {
    const found = await findServer(api, server, 'change')
    return { place: { server: found, environmentId: null }, name: `the server ${found.name}` }
  }
  const target = await findTarget(api, context, purpose)
  const { environment } = target
  requireServices(target, service === undefined ? [] : [service])
  if (server !== undefined) {
    const found = await findServer(api, server, 'change')
    if (found.id !== environment.server.id) {
      const message = `${environment.identifier} is on ${environment.server.name}, not on ${found.name}`
      throw new CliError(EXIT.notFound, message)
    }
  }
  return {
    place: { server: environment.server, environmentId: environment.id },
    name: `${targetName(target)} on ${environment.server.name}`,
  }
}

const COMMAND_LINE = /[\s;&|<>()$`"'*?~#{}[\]\\]/

/** `berth ssh -- 'a; b'` is a line for a shell; `berth ssh -- node -v` is a program with its words. */
function argvOf(command: readonly string[]): readonly string[] {
  const [line = ''] = command
  return command.length === 1 && COMMAND_LINE.test(line) ? ['/bin/sh', '-c', line] : command
}

/** The forced command's words for the request. */
function sshWords(options: SshOptions, place: SshPlace): string[] {
  if (place.environmentId === null) return ['server']
  const service = options.service === undefined ? [] : [options.service]
  if (options.command.length === 0) return ['shell', ...service]
  const encoded = Buffer.from(JSON.stringify(argvOf(options.command))).toString('base64url')
  if (encoded.length > CLIENT.sshWordsBytes) throw usage('the command is too long')
  return ['exec', ...service, encoded]
}

/**
 * The exit code of the remote command. A failure of ssh is 1; for a shell, refusals of the forced command get our
 * codes.
 */
function exitCodeOf(code: number | null, isCommand: boolean, endpoint: SshEndpoint): number {
  if (code === null) throw new CliError(EXIT.error, 'the connection was ended')
  if (code === NO_CONNECTION) {
    const where = `${endpoint.place.server.name}:${endpoint.reply.port}`
    throw new CliError(EXIT.error, `no session at ${where}, or it was cut`)
  }
  if (isCommand) return code
  if (code === SSH_REFUSED) return EXIT.refused
  return code === SSH_NOT_AVAILABLE || code === SSH_NO_AGENT ? EXIT.error : code
}

async function performSsh(options: SshOptions, context: Context): Promise<number> {
  const { io, screen } = context
  const api = await context.connect()
  const { place, name } = await findPlace(context, api, options.server, 'change', options.service)
  const words = sshWords(options, place)
  const isCommand = options.command.length > 0
  return withCertificate({ api, io }, place, 'shell', async (endpoint) => {
    if (!isCommand) {
      const left = formatSpan(Date.parse(endpoint.reply.valid_before) - io.now())
      await screen.note(
        cleanText(`Connecting to ${name} (certificate ${endpoint.reply.serial}, valid ${left})`),
      )
    }
    const code = await runAttached(io, endpoint.argv(words, !isCommand && io.stdin.isTTY))
    if (io.interrupted.aborted) throw interrupted('the session was ended here')
    return exitCodeOf(code, isCommand, endpoint)
  })
}

export const ssh = compose(parseSsh, performSsh)

interface SshCertOptions {
  server: string
  publicKey: string
  output: string | undefined
}

function parseSshCert({ flags }: Invocation): SshCertOptions {
  return {
    server: flagText(flags, 'server') ?? '',
    publicKey: flagText(flags, 'publicKey') ?? '',
    output: flagText(flags, 'output'),
  }
}

async function readPublicKey(path: string): Promise<string> {
  let text: string
  try {
    if ((await stat(path)).size > CLIENT.publicKeyBytes) throw usage(`${path} is no public key`)
    text = (await readFile(path, 'utf8')).trim()
  } catch (error) {
    if (error instanceof CliError) throw error
    throw usage(`${path} cannot be read (${(error as NodeJS.ErrnoException).code})`)
  }
  // refused here, because otherwise the private half would be sent
  if (text.includes('PRIVATE KEY') || text.includes('\n')) {
    throw usage(`${path} is no public key`, 'the file that ends in .pub is')
  }
  return text
}

async function performSshCert(options: SshCertOptions, context: Context): Promise<ExitCode> {
  const { io, screen } = context
  const publicKey = await readPublicKey(options.publicKey)
  const api = await context.connect()
  const { place, name } = await findPlace(context, api, options.server, 'change')
  const { value: reply, raw } = await requestCertificate(api, io, place, {
    publicKey,
    purpose: 'shell',
  })
  if (options.output !== undefined && options.output !== '-') {
    try {
      await writeFile(options.output, `${reply.certificate}\n`, { mode: 0o600 })
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      throw new CliError(EXIT.error, `${options.output} cannot be written (${code})`)
    }
    await screen.note(`Saved the certificate to ${options.output}`)
  }
  const left = formatSpan(Date.parse(reply.valid_before) - io.now())
  await screen.note(cleanText(`For ${name}: serial ${reply.serial}, valid ${left}`))
  await screen.note(`  ${reply.user}@${reply.host} port ${reply.port}, known_hosts:`)
  for (const ca of reply.host_ca) {
    await screen.note(cleanText(`  @cert-authority ${reply.host_alias} ${ca}`))
  }
  if (screen.json) await screen.printJson(raw)
  else if (options.output === undefined || options.output === '-') {
    await screen.print(cleanText(reply.certificate))
  }
  return EXIT.done
}

export const sshCert = compose(parseSshCert, performSshCert)
