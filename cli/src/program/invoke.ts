// From argv to an exit code. commander parses the words; errors of every kind end here, as one line (and a hint) on
// stderr. Flags are parsed at any position, and global flags are known on every level.
import { Command, CommanderError, Option } from 'commander'
import type { Api } from '../client/api.ts'
import type { ApiFailure } from '../client/problem.ts'
import type { Context, Flags, Globals } from '../context.ts'
import { CliError, EXIT, EXIT_MEANINGS, type ExitCode, usage } from '../terminal/exit.ts'
import type { Io } from '../terminal/io.ts'
import { suggest } from '../terminal/suggest.ts'
import { openScreen } from '../terminal/terminal.ts'
import { cleanText, toJson } from '../terminal/text.ts'
import { COMMANDS } from './program.ts'
import {
  type CommandSpec,
  type FlagSpec,
  GLOBAL_FLAGS,
  GROUPS,
  HELP_GROUPS,
  LOG_AND_LOGS,
} from './spec.ts'

const collect = (value: string, before: unknown): string[] =>
  Array.isArray(before) ? [...before, value] : [value]

function addFlag(command: Command, spec: FlagSpec, isHidden = false): void {
  const option = new Option(spec.flags, spec.summary)
  if (spec.repeat) option.argParser(collect)
  else if (spec.choices) option.choices([...spec.choices])
  option.hideHelp(isHidden)
  command.addOption(option)
}

const listFlags = (title: string, flags: readonly FlagSpec[]): string =>
  [`\n${title}:`, ...flags.map((one) => `  ${one.flags.padEnd(23)}  ${one.summary}`)].join('\n')

/** Below the command's own flags and commands, which people look for first. */
const GLOBAL_HELP = listFlags('Global options', [
  ...GLOBAL_FLAGS,
  { flags: '-h, --help', summary: 'Show this help' },
])

const examplesOf = ({ examples }: CommandSpec): string =>
  ['\nExamples:', ...examples.map((line) => `  ${line}`)].join('\n')

function addGlobals(command: Command): void {
  for (const spec of GLOBAL_FLAGS) addFlag(command, spec, true)
  command.addHelpOption(new Option('-h, --help').hideHelp())
  command.addHelpText('after', GLOBAL_HELP)
}

/** The flags of every level; the level nearest to the command wins. */
function mergedFlags(command: Command): Flags {
  const levels: Command[] = []
  for (let one: Command | null = command; one; one = one.parent) levels.unshift(one)
  const flags: Record<string, unknown> = {}
  for (const level of levels) {
    for (const [name, value] of Object.entries(level.opts())) {
      // a "--no-x" defaults to true on every level and would override the given one
      if (level.getOptionValueSource(name) !== 'default') flags[name] = value
    }
  }
  return flags
}

function readGlobals(flags: Flags): Globals {
  const text = (name: string): string | undefined => {
    const value = flags[name]
    // -p "$PROJECT" with an empty variable must not silently mean another project
    if (value === '') throw usage(`--${name} is empty`)
    return typeof value === 'string' ? value : undefined
  }
  return {
    project: text('project'),
    env: text('env'),
    org: text('org'),
    url: text('url'),
    cacert: text('cacert'),
    json: flags.json === true,
    color: flags.color !== false,
    input: flags.input !== false,
    yes: flags.yes === true,
    quiet: flags.quiet === true,
    verbose: flags.verbose === true,
  }
}

function openContext(io: Io, globals: Globals): Context {
  const screen = openScreen(io, globals)
  let api: Promise<Api> | undefined
  async function open(): Promise<Api> {
    const { connect } = await import('../client/login.ts')
    const say = (url: string) => screen.note(`Control plane: ${cleanText(url)}`)
    const opened = await connect(globals, io, say)
    if (!screen.live) return opened
    const { spinWhileAsking } = await import('../progress/live.ts')
    return spinWhileAsking(opened, io.stderr)
  }
  return {
    io,
    globals,
    screen,
    connect() {
      api ??= open()
      return api
    },
  }
}

/** A word where a command was expected. */
function unknownCommand(parent: Command, word: string): CliError {
  const known = parent.commands.flatMap((one) => [one.name(), ...one.aliases()])
  const name = parent.parent ? `${parent.name()} ${word}` : word
  const visible = known.filter((one) => one !== OVERVIEW)
  return usage(`unknown command '${name}'`, suggest(word, visible, 'commands'))
}

/** How each command's arguments are shown; commander itself requires none. */
const shownArguments = new WeakMap<Command, string>()

const flagName = ({ flags }: FlagSpec): string =>
  (/--([a-z-]+)/.exec(flags)?.[1] ?? '').replace(/-([a-z])/g, (_, letter: string) =>
    letter.toUpperCase(),
  )

/** Everything that is missing, in one message. */
function requireAll(spec: CommandSpec, args: readonly string[], flags: Flags): void {
  const wanted = (spec.args?.split(' ') ?? []).filter((word) => word.startsWith('<'))
  const words = wanted.slice(args.length)
  const missing = (spec.flags ?? []).filter((one) => one.required && !(flagName(one) in flags))
  const all = [...words, ...missing.map((one) => one.flags.replace(/^-\w, /, ''))]
  if (all.length === 0) return
  throw usage(`missing: ${all.join(', ')}`, `berth help ${spec.path} shows what it takes`)
}

type Finish = (code: number) => void

/** One run of the client, as its commands need it. */
interface Call {
  io: Io
  finish: Finish
  /** Words after `--` that commander must not see. */
  rest: readonly string[]
}

function addCommand(parent: Command, spec: CommandSpec, call: Call): void {
  const { io, finish } = call
  const [first = '', second] = spec.path.split(' ')
  const isDefault = second !== undefined && GROUPS[first]?.fallback === second
  const command = parent.command(second ?? first, { hidden: spec.hidden === true, isDefault })
  command.description(spec.summary)
  // required ones are checked below, together with the flags
  for (const word of spec.args?.split(' ') ?? []) {
    command.argument(word.replace(/^<(.*)>$/, '[$1]'))
  }
  shownArguments.set(command, spec.args ?? '')
  if (spec.args) command.usage(`[flags] ${spec.args}`)
  if (isDefault) command.allowExcessArguments() // refused below, with a better message
  const takesWords = spec.args !== undefined
  for (const flag of spec.flags ?? []) addFlag(command, flag)
  command.addHelpText('after', examplesOf(spec))
  addGlobals(command)
  command.action(async () => {
    if (isDefault && !takesWords && command.args[0] !== undefined) {
      throw unknownCommand(parent, command.args[0])
    }
    const flags = mergedFlags(command)
    requireAll(spec, command.args, flags)
    const globals = readGlobals(flags)
    const run = await spec.load()
    const invocation = { args: command.args, rest: call.rest, flags, globals }
    finish(await run(invocation, openContext(io, globals)))
  })
}

/** `berth` alone, `berth --version`, and words that are no command. */
const OVERVIEW = 'overview'

function addOverview(program: Command, io: Io, finish: Finish): void {
  const overview = program.command(OVERVIEW, { hidden: true, isDefault: true })
  overview.allowExcessArguments().allowUnknownOption()
  overview.action(async () => {
    const [word] = overview.args
    if (word?.startsWith('-')) throw usage(`unknown option '${word}'`, 'berth --help lists them')
    if (word !== undefined) throw unknownCommand(program, word)
    const flags = mergedFlags(overview)
    if (flags.version !== true) return program.outputHelp()
    const { showVersion } = await import('../commands/version.ts')
    finish(await showVersion(openContext(io, readGlobals(flags))))
  })
}

function addHelp(program: Command, io: Io): void {
  const help = program.command('help').argument('[words...]').description('Show help for a command')
  help.action(async () => {
    if (help.args[0] === 'exit-codes') {
      const lines = EXIT_MEANINGS.map(
        ([code, meaning]) => `${String(code).padStart(3)}  ${meaning}`,
      )
      return io.stdout.write(`${lines.join('\n')}\n`)
    }
    let command = program
    for (const word of help.args) {
      const next = command.commands.find((one) => [one.name(), ...one.aliases()].includes(word))
      if (!next) throw unknownCommand(command, word)
      command = next
    }
    command.outputHelp()
  })
}

/** 'tasks log [id]' without commander's own '[options]' and aliases, which every line would have. */
const subcommandTerm = (command: Command): string => {
  const words = shownArguments.get(command) ?? ''
  return `${command.name()} ${words}`.trimEnd()
}

function buildProgram(call: Call): Command {
  const { io, finish } = call
  const program = new Command('berth')
    .description('Deploy projects with Berth.')
    .usage('<command> [flags]')
    .enablePositionalOptions()
    .exitOverride()
    .helpCommand(false)
    .configureHelp({ subcommandTerm })
    .configureOutput({
      writeOut: (text) => void io.stdout.write(text),
      writeErr: (text) => void io.stderr.write(text),
      outputError: () => {}, // printed once, by run()
      getOutHasColors: () => false,
      getErrHasColors: () => false,
      getOutHelpWidth: () => Math.min(io.stdout.columns, 100),
      getErrHelpWidth: () => Math.min(io.stderr.columns, 100),
    })
    .option('--version', 'Show the version')
  addGlobals(program)
  program.addHelpText('after', `\n${LOG_AND_LOGS}\n\nExit codes: berth help exit-codes`)
  const groups = new Map<string, Command>()
  for (const spec of COMMANDS) {
    const [first = '', second] = spec.path.split(' ')
    const group = second === undefined ? program : (groups.get(first) ?? addGroup(program, first))
    if (second !== undefined) groups.set(first, group)
    addCommand(group, spec, call)
  }
  addHelp(program, io)
  addOverview(program, io, finish)
  for (const command of program.commands) {
    const title = Object.keys(HELP_GROUPS).find((one) => HELP_GROUPS[one]?.includes(command.name()))
    command.helpGroup(`${title ?? 'More'}:`)
  }
  return program
}

function addGroup(program: Command, name: string): Command {
  const about = GROUPS[name]
  const group = program
    .command(name)
    .description(about?.summary ?? '')
    .helpCommand(false)
  group.aliases([...(about?.aliases ?? [])]).enablePositionalOptions()
  const fallback = COMMANDS.find(({ path }) => path === `${name} ${about?.fallback}`)
  if (fallback?.hidden) {
    group.addHelpText(
      'after',
      `${listFlags('Options', fallback.flags ?? [])}\n${examplesOf(fallback)}`,
    )
  }
  addGlobals(group)
  return group
}

/** Converts commander's messages to our own error and hint. */
function fromCommander(error: CommanderError): CliError | null {
  if (error.exitCode === 0) return null // the help was requested and has been printed
  if (error.code === 'commander.help') return usage('a command is missing', 'berth --help')
  const [first = '', second = ''] = error.message.split('\n')
  const hint = /^\((.*)\)$/.exec(second)?.[1]?.replace('Did you', 'did you')
  return usage(first.replace(/^error: /, ''), hint ?? 'berth help COMMAND shows what it takes')
}

/** One line with what programs need; nothing if the command has printed data already. */
async function printJsonError(error: CliError, io: Io): Promise<void> {
  const { message, hint = null, exitCode } = error
  const { code = null, status = null, details = {} } = error as Partial<ApiFailure>
  const requestId = details.request_id ?? null
  const shown = { message, hint, exit_code: exitCode, code, status, request_id: requestId }
  await io.stdout.write(`${toJson({ error: shown })}\n`)
}

/** Whether anything was printed as data. */
function watchOutput(io: Io): { watched: Io; hasPrinted: () => boolean } {
  let hasPrinted = false
  const stdout: Io['stdout'] = Object.assign(Object.create(io.stdout), {
    write(data: string | Uint8Array) {
      hasPrinted ||= data.length > 0
      return io.stdout.write(data)
    },
  })
  return { watched: { ...io, stdout }, hasPrinted: () => hasPrinted }
}

async function reportError(
  error: unknown,
  argv: readonly string[],
  io: Io,
  hasPrinted: boolean,
): Promise<ExitCode> {
  const known = error instanceof CommanderError ? fromCommander(error) : error
  if (known === null) return EXIT.done
  const color = !argv.includes('--no-color')
  const screen = openScreen(io, { json: false, color, quiet: false })
  const reported =
    known instanceof CliError
      ? known
      : new CliError(
          EXIT.error,
          `internal: ${(known as Error)?.message ?? known}`,
          undefined,
          known,
        )
  await screen.fail(reported)
  if (argv.includes('--json') && !hasPrinted) await printJsonError(reported, io)
  if (io.env.BERTH_DEBUG === '1') {
    for (let one: unknown = reported; one instanceof Error; one = one.cause) {
      await screen.say(one.stack ?? one.message)
    }
  }
  return reported.exitCode
}

/** Flags whose next word is their value. */
const VALUES = new Set(
  GLOBAL_FLAGS.filter((flag) => flag.flags.includes('<')).flatMap(
    (flag) => flag.flags.match(/--?[a-z][a-z-]*/g) ?? [],
  ),
)

/** `berth ssh … -- WORDS`: a command for the remote side, never parsed as flags here. */
function splitRest(argv: readonly string[]): { own: string[]; rest: string[] } {
  const at = argv.indexOf('--')
  const own = argv.slice(0, at < 0 ? argv.length : at)
  let i = 0
  while (own[i]?.startsWith('-')) i += VALUES.has(own[i] ?? '') ? 2 : 1
  const passes = COMMANDS.some((spec) => spec.passesRest && spec.path.split(' ')[0] === own[i])
  return passes && at >= 0 ? { own, rest: argv.slice(at + 1) } : { own: [...argv], rest: [] }
}

export async function run(argv: readonly string[], io: Io): Promise<number> {
  if (argv[0] === '__complete') {
    const { complete } = await import('./complete.ts')
    return complete(argv.slice(1), io).catch(() => EXIT.done)
  }
  let code: number = EXIT.done
  const { own, rest } = splitRest(argv)
  const finish = (result: number) => {
    code = result
  }
  const { watched, hasPrinted } = watchOutput(io)
  const program = buildProgram({ io: watched, finish, rest })
  try {
    await program.parseAsync(own, { from: 'user' })
    return code
  } catch (error) {
    return reportError(error, own, io, hasPrinted())
  }
}
