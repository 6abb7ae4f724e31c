// Explains the cause of a failed step in a sentence, from known phrases of shells, runtimes and compilers, never a
// guess. PURE. A hint quotes only its line; lines are masked before they are stored, so no hint can hold a secret.
// Without a match there is no hint, not even "something failed".
import type { Failure, Hint } from '@berth/shared/api'

interface FailureEvidence {
  failure: Pick<Failure, 'code' | 'exit_code' | 'step_title' | 'is_platform_check'>
  /** The step's own lines, oldest first, without escape sequences. */
  lines: readonly string[]
}

type Rule = (evidence: FailureEvidence) => Hint | undefined

const QUOTED = 160 // characters of the output in one hint
const quote = (text: string): string => {
  const line = text.trim()
  return line.length > QUOTED ? `${line.slice(0, QUOTED - 1)}…` : line
}

/** The newest matching line, because the last message usually ended the process. */
function lastMatch(lines: readonly string[], ...patterns: RegExp[]): RegExpExecArray | undefined {
  for (const line of lines.toReversed()) {
    for (const pattern of patterns) {
      const match = pattern.exec(line)
      if (match) return match
    }
  }
  return undefined
}

/** The oldest matching line, because a compiler's later errors often follow from its first. */
const firstMatch = (lines: readonly string[], pattern: RegExp): RegExpExecArray | undefined => {
  for (const line of lines) {
    const match = pattern.exec(line)
    if (match) return match
  }
  return undefined
}

const hint = (code: string, message: string): Hint => ({ code, message })

const outOfMemory: Rule = ({ failure, lines }) => {
  if (lastMatch(lines, /JavaScript heap out of memory/)) {
    const how = 'Raise it with NODE_OPTIONS=--max-old-space-size, below the memory of the step.'
    return hint('out_of_memory', `Node.js ran out of its own heap. ${how}`)
  }
  if (failure.code === 'out_of_memory') {
    const step = failure.step_title ?? 'the step'
    return hint('out_of_memory', `The kernel ended a process of "${step}" for its memory.`)
  }
  if (failure.exit_code !== 137) return undefined
  const said = lastMatch(lines, /\bKilled\b/) ? ', and the shell says "Killed"' : ''
  return hint(
    'out_of_memory',
    `Exit code 137 means a process was ended with SIGKILL${said}; the usual reason is too little memory.`,
  )
}

const diskFull: Rule = ({ failure, lines }) => {
  const match = lastMatch(lines, /^.*(?:No space left on device|\bENOSPC\b).*$/i)
  if (match) return hint('disk_full', `The disk of the server is full: ${quote(match[0])}`)
  if (failure.code !== 'disk_full') return undefined
  return hint('disk_full', 'The disk of the server has too little room for this deployment.')
}

const portInUse: Rule = ({ lines }) => {
  const match =
    lastMatch(lines, /(?:EADDRINUSE|address already in use)\b[^\n]*?:(\d{1,5})\s*$/i) ??
    lastMatch(lines, /\bEADDRINUSE\b|address already in use/i)
  if (!match) return undefined
  const which = match[1] ? `Port ${match[1]}` : 'The port it wants to listen on'
  return hint('port_in_use', `${which} is held by another process already.`)
}

const VARIABLE = '[A-Z][A-Z0-9_]{2,127}'
const MISSING_VARIABLE = [
  new RegExp(`(?:^|[\\s:])(${VARIABLE}): (?:parameter not set|unbound variable)`),
  new RegExp(`^KeyError: '(${VARIABLE})'`),
  new RegExp(
    `\\b(${VARIABLE})\\b["'\`]? (?:is|was|must be) (?:not set|not defined|required|missing|set)\\b`,
  ),
  new RegExp(
    `(?:[Mm]issing|[Rr]equired) (?:required )?(?:environment )?variables?:? ["'\`]?(${VARIABLE})`,
  ),
  new RegExp(
    `[Ee]nvironment variable ["'\`]?(${VARIABLE})["'\`]? (?:is|was) (?:not|missing|required)`,
  ),
]

const missingVariable: Rule = ({ lines }) => {
  const match = lastMatch(lines, ...MISSING_VARIABLE)
  if (!match) return undefined
  return hint(
    'missing_variable',
    `The variable ${match[1]} is not set. Set it for the environment and deploy again: berth vars set ${match[1]}`,
  )
}

const missingScript: Rule = ({ lines }) => {
  const match = lastMatch(
    lines,
    /npm (?:error|ERR!) Missing script: ["']?([^"'\s]+)/,
    /ERR_PNPM_NO_SCRIPT\S*\s+Missing script: (\S+)/,
    /^error Command "([^"]+)" not found\.$/,
  )
  if (!match) return undefined
  return hint('missing_script', `package.json has no script "${match[1]}".`)
}

const missingModule: Rule = ({ lines }) => {
  const python = lastMatch(lines, /^ModuleNotFoundError: No module named '([^']+)'/)
  if (python) {
    return hint('missing_module', `Python does not find the module ${python[1]}; is it installed?`)
  }
  const node = lastMatch(lines, /Cannot find (?:module|package) '([^']+)'/)
  if (!node) return undefined
  const name = node[1] ?? ''
  const why = /^[./]/.test(name)
    ? 'is the path right, and was it built?'
    : 'is it among the dependencies, and were they installed?'
  return hint('missing_module', `Node.js does not find ${quote(name)}; ${why}`)
}

const commandNotFound: Rule = ({ failure, lines }) => {
  const match = lastMatch(
    lines,
    /^(?:\S*sh: (?:line )?\d+: |\S*sh: )([^:]+): (?:command )?not found$/,
    /^([^:\s]+): command not found$/,
  )
  const name = match?.[1]
  if (name?.includes('/')) {
    return hint(
      'missing_file',
      `${quote(name)} is not in the checkout, or its interpreter is not on the server.`,
    )
  }
  if (name) {
    return hint('command_not_found', `The command ${quote(name)} is not installed on the server.`)
  }
  const isUnbound = lastMatch(lines, /unbound variable/) !== undefined // bash exits with 127 here too
  if (failure.exit_code !== 127 || isUnbound) return undefined
  return hint('command_not_found', 'Exit code 127: the shell did not find a command of this step.')
}

const missingFile: Rule = ({ lines }) => {
  const match = lastMatch(
    lines,
    /ENOENT: no such file or directory, \w+ '([^']+)'/,
    /No such file or directory: '([^']+)'/,
    /^(?:[^:\n]+: )+?'?([^:'\n]+)'?: No such file or directory$/,
  )
  if (!match) return undefined
  return hint(
    'missing_file',
    `${quote(match[1] ?? '')} does not exist where the step looks for it.`,
  )
}

const permissionDenied: Rule = ({ failure, lines }) => {
  const match = lastMatch(lines, /^.*(?:Permission denied|\bEACCES\b).*$/i)
  if (match) {
    const how =
      failure.exit_code === 126
        ? ' A script must be executable in the repository (git update-index --chmod=+x).'
        : ''
    return hint('permission_denied', `Not allowed: ${quote(match[0])}.${how}`)
  }
  if (failure.exit_code !== 126) return undefined
  return hint('permission_denied', 'Exit code 126: a command of this step cannot be executed.')
}

const COMPILERS: [language: string, pattern: RegExp][] = [
  ['TypeScript', /^(\S[^(\n]*)\((\d+),\d+\): error TS\d+: (.*)$/],
  ['TypeScript', /^(\S[^:\n]*):(\d+):\d+ - error TS\d+: (.*)$/],
  ['Go', /^(\S[^:\n]*\.go):(\d+):\d+: (.*)$/],
  ['Java', /^(\S[^:\n]*\.java):(\d+): error: (.*)$/],
  ['C', /^(\S[^:\n]*\.(?:c|cc|cpp|cxx|h|hpp)):(\d+):\d+: (?:fatal )?error: (.*)$/],
]

const compileError: Rule = ({ lines }) => {
  for (const [language, pattern] of COMPILERS) {
    const match = firstMatch(lines, pattern)
    if (!match) continue
    const [, file = '', line, text = ''] = match
    return hint(
      'compile_error',
      `The ${language} build failed in ${quote(file)}:${line}: ${quote(text)}`,
    )
  }
  const rust = lines.findIndex((line) => /^error\[E\d+\]: /.test(line))
  const place = rust < 0 ? undefined : /^\s*--> (\S+):(\d+):\d+$/.exec(lines[rust + 1] ?? '')
  if (!place) return undefined
  const text = (lines[rust] ?? '').replace(/^error\[E\d+\]: /, '')
  return hint('compile_error', `The Rust build failed in ${place[1]}:${place[2]}: ${quote(text)}`)
}

const npmError: Rule = ({ lines }) => {
  const code = firstMatch(lines, /^npm (?:error|ERR!) code (E[A-Z0-9]+)$/)?.[1]
  if (!code) return undefined
  const reported = lines
    .map((line) => /^npm (?:error|ERR!) (.+)$/.exec(line)?.[1] ?? '')
    .find((line) => line !== '' && !/^(?:code|syscall|path|errno|A complete log)\b/.test(line))
  return hint('npm_error', `npm stopped with ${code}${reported ? `: ${quote(reported)}` : '.'}`)
}

const pipError: Rule = ({ lines }) => {
  const match = lastMatch(lines, /^ERROR: No matching distribution found for (\S+)/)
  if (!match) return undefined
  return hint('missing_module', `pip found no package that satisfies ${quote(match[1] ?? '')}.`)
}

const noConnection: Rule = ({ lines }) => {
  const refused = lastMatch(lines, /\bECONNREFUSED (\S+:\d{1,5})\b/)
  if (refused) return hint('connection_refused', `Nothing answers at ${refused[1]}.`)
  const unknown = lastMatch(lines, /\bgetaddrinfo (?:ENOTFOUND|EAI_AGAIN) (\S+)/)
  if (!unknown) return undefined
  return hint('name_not_resolved', `The server cannot resolve the name ${quote(unknown[1] ?? '')}.`)
}

const notStarted: Rule = ({ failure }) =>
  failure.code === 'not_started'
    ? hint('deploy_again', 'Nothing was changed on the server. Deploy again: berth deploy')
    : undefined

/** In the order of explanation: what ended the process, then what it missed, then its output. */
const RULES: readonly Rule[] = [
  notStarted,
  outOfMemory,
  diskFull,
  missingVariable,
  portInUse,
  compileError,
  missingScript,
  missingModule,
  pipError,
  npmError,
  commandNotFound,
  permissionDenied,
  missingFile,
  noConnection,
]

export function readHints(evidence: FailureEvidence): Hint[] {
  const found = new Map<string, Hint>()
  for (const rule of RULES) {
    const one = rule(evidence)
    if (one && !found.has(one.code)) found.set(one.code, one)
  }
  // npm and a missing module report the same file again
  if (found.has('npm_error') || found.has('missing_module')) found.delete('missing_file')
  return [...found.values()]
}
