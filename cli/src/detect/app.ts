// What an application of any language is and needs, and the files that follow from it. PURE.
import type { Recipe } from '@berth/shared'

/** A variable without which it does not start. */
interface NeededVariable {
  key: string
  services: string[]
  reason: string
  /** A random value of this form does; without it only the user knows the value. */
  make?: 'hex' | 'laravel'
}

interface ManualWay {
  /** Runtimes by version, where the repository names one. */
  tools?: Record<string, string>
  steps: string[]
  /** A command that stays, or a folder of files. */
  run?: string
  root?: string
  /** A port that the program insists on; without it Berth picks one. */
  port?: number
  /** In place of the image's command. */
  release?: string
}

export interface App {
  /** 'Next.js', 'Django', 'Go'. */
  title: string
  /** Each a sentence: what was found, and what follows. */
  reasons: string[]
  port: number
  /** Answers 2xx or 3xx when it is ready; null: a connection is enough. */
  health: string | null
  /** Run once for each deployment, before the new version serves. */
  release?: string
  dockerfile: string[]
  ignore: string[]
  manual: ManualWay | null
  variables: NeededVariable[]
  /** Why it cannot run as it is, and what to change. */
  problem?: string
}

export interface WrittenFile {
  path: string
  text: string
}

/** The files of one recipe. */
export interface Draft {
  recipe: Recipe
  /** Lines of .service.yml, below its head. */
  lines: string[]
  reasons: string[]
  /** Dockerfile and .dockerignore, where the folder has none. */
  files: WrittenFile[]
  variables: NeededVariable[]
  notConverted: { where: string; reason: string }[]
  problem: string | null
}

const IGNORED = [
  '.git',
  '.github',
  '.berth',
  '.service.yml',
  'Dockerfile',
  '.dockerignore',
  '.env',
  '.env.*',
  '*.log',
  '.DS_Store',
  '.idea',
  '.vscode',
]

const textOf = (lines: readonly string[]): string => `${lines.join('\n')}\n`

/** JSON is YAML too, so every text of the repository is safe in it. */
export const quoted = (text: string): string => JSON.stringify(text)

export function dockerDraft(app: App, found: { ignore: boolean }): Draft {
  const health =
    app.health === null
      ? '      # health: /up # answers 2xx when it is ready; without it a connection is enough'
      : `      health: ${app.health}`
  const files = [{ path: 'Dockerfile', text: textOf(app.dockerfile) }]
  if (!found.ignore) {
    files.push({ path: '.dockerignore', text: textOf([...IGNORED, ...app.ignore]) })
  }
  return {
    recipe: 'docker',
    reasons: [
      ...app.reasons,
      `There is no Dockerfile: one is written that listens on ${app.port}.`,
      ...(app.problem === undefined ? [] : [app.problem]),
    ],
    files,
    variables: app.variables,
    notConverted: [],
    problem: app.problem ?? null,
    lines: [
      'docker:',
      '  services:',
      "    web: # serves the environment's own address",
      '      build: . # the folder with the Dockerfile',
      `      port: ${app.port}`,
      health,
      ...(app.release === undefined
        ? ['      # release: npm run migrate # once per deployment, before the new version serves']
        : [`      release: ${app.release}`]),
    ],
  }
}

export const stepLines = (steps: readonly string[]): string[] => [
  '  deploy:',
  ...steps.map((step) => `    - ${step}`),
]

export function manualDraft(app: App, way: ManualWay): Draft {
  const tools = Object.entries(way.tools ?? {})
  const release = way.release ?? app.release
  const steps = [...way.steps, ...(release === undefined ? [] : [release])]
  const place =
    way.root !== undefined
      ? [`      root: ${way.root} # the folder whose files are served`]
      : way.port !== undefined
        ? [`      port: ${way.port}`]
        : ['      port: auto # a free port, given as $PORT; a redeployment has no gap']
  const how =
    way.root !== undefined
      ? `The files in ${way.root} are served.`
      : way.port === undefined
        ? `Berth keeps "${way.run}" running. It must listen on $PORT.`
        : `Berth keeps "${way.run}" running, on port ${way.port}.`
  return {
    recipe: 'manual',
    reasons: [
      ...app.reasons,
      ...(way.steps.length > 0 ? [`Commands on the server: ${way.steps.join(', then ')}.`] : []),
      how,
      ...(app.problem === undefined ? [] : [app.problem]),
    ],
    files: [],
    variables: app.variables,
    notConverted: [],
    problem: app.problem ?? null,
    lines: [
      'manual:',
      ...(tools.length > 0
        ? ['  tools:', ...tools.map(([name, version]) => `    ${name}: ${quoted(version)}`)]
        : []),
      ...stepLines(
        steps.length > 0 ? steps : ['"true" # your build, if the files are made by one'],
      ),
      '  services:',
      "    web: # serves the environment's own address",
      ...place,
      ...(way.run === undefined ? [] : [`      run: exec ${way.run}`]),
      ...(app.health === null || way.root !== undefined ? [] : [`      health: ${app.health}`]),
    ],
  }
}
