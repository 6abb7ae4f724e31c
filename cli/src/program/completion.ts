// berth completion: scripts generated from the command table, so that they always match the program. Values from the
// server come through the hidden `berth __complete`, which is fast or silent.
import { type Context, compose, type Invocation, type Runnable } from '../context.ts'
import { EXIT, type ExitCode, usage } from '../terminal/exit.ts'
import { type CommandSpec, type FlagSpec, GLOBAL_FLAGS, GROUPS } from './spec.ts'

type Commands = readonly CommandSpec[]

const SHELLS = ['bash', 'zsh', 'fish', 'powershell'] as const
type Shell = (typeof SHELLS)[number]

interface Level {
  /** "" for the program itself, else the words before the cursor. */
  path: string
  words: { word: string; summary: string }[]
  flags: readonly FlagSpec[]
}

export const flagNames = (flag: FlagSpec): string[] =>
  flag.flags.match(/(?<=^|[ ,])--?[A-Za-z][\w-]*/g) ?? []
export const takesValue = (flag: FlagSpec): boolean => flag.flags.includes('<')

/** Flags whose next word is their value, in every command that has them. */
function valueFlags(commands: Commands): string[] {
  const all = [...GLOBAL_FLAGS, ...commands.flatMap((spec) => spec.flags ?? [])]
  const switches = new Set(all.filter((flag) => !takesValue(flag)).flatMap(flagNames))
  const values = new Set(all.filter(takesValue).flatMap(flagNames))
  return [...values].filter((name) => !switches.has(name))
}

/** A command under each of its names: `env create` and `envs create`. */
function pathsOf(spec: CommandSpec): string[] {
  const [first = '', second] = spec.path.split(' ')
  if (second === undefined) return [first]
  return [first, ...(GROUPS[first]?.aliases ?? [])].map((group) => `${group} ${second}`)
}

/** Everything that can follow each prefix of words. */
export function completionLevels(commands: Commands): Level[] {
  const visible = commands.filter((spec) => !spec.hidden)
  const top: Level = {
    path: '',
    words: [{ word: 'help', summary: 'Show help for a command' }],
    flags: [],
  }
  const levels = new Map<string, Level>([['', top]])
  for (const [name, group] of Object.entries(GROUPS)) {
    if (!visible.some((spec) => spec.path.startsWith(`${name} `))) continue
    for (const word of [name, ...group.aliases]) {
      top.words.push({ word, summary: group.summary })
      levels.set(word, { path: word, words: [], flags: [] })
    }
  }
  for (const spec of commands) {
    const [first = '', second] = spec.path.split(' ')
    // the bare word takes the flags of its default command
    if (second === undefined || GROUPS[first]?.fallback !== second) continue
    for (const path of pathsOf(spec)) {
      const level = levels.get(path.split(' ')[0] ?? '')
      if (level) level.flags = spec.flags ?? []
    }
  }
  for (const spec of visible) {
    for (const path of pathsOf(spec)) {
      const [first = '', second] = path.split(' ')
      const word = second ?? first
      levels.get(second === undefined ? '' : first)?.words.push({ word, summary: spec.summary })
      const choices = (spec.argChoices ?? []).map((choice) => ({ word: choice, summary: '' }))
      levels.set(path, { path, words: choices, flags: spec.flags ?? [] })
    }
  }
  return [...levels.values()]
}

const everyFlag = (level: Level): FlagSpec[] => [...level.flags, ...GLOBAL_FLAGS]

function bashScript(commands: Commands): string {
  const cases = completionLevels(commands).map((level) => {
    const words = level.words.map(({ word }) => word)
    const flags = [...everyFlag(level).flatMap(flagNames), '--help']
    return `    '${level.path}') words='${words.join(' ')}' flags='${flags.join(' ')}' ;;`
  })
  return `# bash completion for berth
_berth() {
  local cur=\${COMP_WORDS[COMP_CWORD]} place='' words='' flags='' i word skip=0 known=1
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    if ((skip)); then skip=0; continue; fi
    case $word in
      ${valueFlags(commands).join('|')}) skip=1 ;;
      -*) ;;
      *) place="\${place:+$place }$word" ;;
    esac
  done
  case $place in
${cases.join('\n')}
    *) known=0 ;;
  esac
  if ((known && !skip)) && [[ $cur == -* ]]; then
    words=$flags
  elif ((skip || !known)) || [[ -z $words ]]; then
    words=$(berth __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _berth berth
`
}

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

function zshScript(commands: Commands): string {
  const described = (word: string, summary: string) => quote(summary ? `${word}:${summary}` : word)
  const cases = completionLevels(commands).map((level) => {
    const words = level.words.map(({ word, summary }) => described(word, summary))
    const flags = everyFlag(level).flatMap((flag) =>
      flagNames(flag).map((name) => described(name, flag.summary)),
    )
    return `    (${quote(level.path)}) found=(${words.join(' ')}) flags=(${flags.join(' ')}) ;;`
  })
  return `#compdef berth
_berth() {
  local -a found flags
  local place='' word skip=0
  for word in "\${(@)words[2,CURRENT-1]}"; do
    if (( skip )); then skip=0; continue; fi
    case $word in
      (${valueFlags(commands).join('|')}) skip=1 ;;
      (-*) ;;
      (*) place="\${place:+$place }$word" ;;
    esac
  done
  case $place in
${cases.join('\n')}
  esac
  if (( ! skip )) && [[ $PREFIX == -* ]]; then _describe 'flag' flags; return; fi
  if (( ! skip && $#found )); then _describe 'command' found; return; fi
  found=(\${(f)"$(berth __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( $#found )); then compadd -a found; else _files; fi
}
if [[ $funcstack[1] == _berth ]]; then _berth "$@"; else compdef _berth berth; fi
`
}

function fishFlag(condition: string, flag: FlagSpec): string {
  const names = flagNames(flag).map((name) =>
    name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`,
  )
  const value = takesValue(flag) ? " -r -a '(__berth_values)'" : ''
  return `complete -c berth${condition} ${names.join(' ')}${value} -d ${quote(flag.summary)}`
}

function fishScript(commands: Commands): string {
  const lines = completionLevels(commands).flatMap((level) => {
    const condition = ` -n ${quote(`__berth_at "${level.path}"`)}`
    return [
      ...level.words.map(
        ({ word, summary }) => `complete -c berth${condition} -a ${word} -d ${quote(summary)}`,
      ),
      ...level.flags.map((flag) => fishFlag(condition, flag)),
    ]
  })
  const values = completionLevels(commands)
    .filter((level) => level.path !== '' && level.words.length === 0)
    .map((level) => {
      const condition = quote(`__berth_at "${level.path}"`)
      return `complete -c berth -n ${condition} -a '(__berth_values)'`
    })
  return `# fish completion for berth
function __berth_at
    set -l place
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip -eq 1
            set skip 0
            continue
        end
        switch $word
            case ${valueFlags(commands).join(' ')}
                set skip 1
            case '-*'
            case '*'
                set -a place $word
        end
    end
    test "$place" = "$argv[1]"
end
function __berth_values
    berth __complete (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null
end
complete -c berth -f
${[...lines, ...values, ...GLOBAL_FLAGS.map((flag) => fishFlag('', flag))].join('\n')}
`
}

/** The client finds the cursor position itself, so the script only forwards the words. */
const powershellScript = (): string => `# PowerShell completion for berth
Register-ArgumentCompleter -Native -CommandName berth -ScriptBlock {
  param($wordToComplete, $commandAst, $cursorPosition)
  $words = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { "$_" })
  if ($wordToComplete -eq '') { $words += '' }
  & berth __complete --all @words 2>$null | ForEach-Object {
    [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
  }
}
`

const SCRIPTS: Record<Shell, (commands: Commands) => string> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
  powershell: powershellScript,
}

function parseCompletion({ args }: Invocation): { shell: Shell } {
  const shell = SHELLS.find((one) => one === args[0])
  if (shell) return { shell }
  throw usage(`completion takes ${SHELLS.join(', ')}, got '${args[0]}'`)
}

/** `commands`: the table from which the scripts are generated. */
export const completionOf = (commands: Commands): Runnable =>
  compose(parseCompletion, async ({ shell }, context: Context): Promise<ExitCode> => {
    await context.io.stdout.write(SCRIPTS[shell](commands))
    return EXIT.done
  })
