// Guesses the .service.yml that fits a folder. Pure: takes names and texts, returns the file and the reasons. Every
// guess is reported; unknown facts become a comment at their place. Of the folder's own text, only ports and names from
// fixed lists get into the file.
import type { Recipe } from '@berth/shared'

/** The files that matter; null: missing. */
export interface Look {
  dockerfile: string | null
  packageJson: string | null
  hasComposer: boolean
  hasArtisan: boolean
  /** File names of the folder itself. */
  names: ReadonlySet<string>
  /** A folder with an index.html. */
  staticFolder: string | null
}

export interface Guess {
  recipe: Recipe
  /** Lines of the file, below its head. */
  lines: string[]
  /** Each a sentence. */
  reasons: string[]
}

/** In the order in which compose looks for them. */
export const COMPOSE_NAMES = [
  'compose.yaml',
  'compose.yml',
  'docker-compose.yml',
  'docker-compose.yaml',
] as const
/** Where generators and users put a site, in search order. */
export const STATIC_FOLDERS = ['public', 'dist', 'build', 'site', 'www', 'html', '_site'] as const

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

interface Scripts {
  start: boolean
  build: boolean
}

/** null: package.json is missing or unreadable. */
function readScripts(text: string | null): Scripts | null {
  try {
    const parsed: unknown = JSON.parse(text ?? '')
    if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return null
    const { scripts } = parsed as { scripts?: unknown }
    const known = (typeof scripts === 'object' && scripts !== null ? scripts : {}) as object
    return { start: Object.hasOwn(known, 'start'), build: Object.hasOwn(known, 'build') }
  } catch {
    return null
  }
}

interface PackageManager {
  name: string
  install: string
  because: string
}

function packageManager(names: ReadonlySet<string>): PackageManager {
  if (names.has('pnpm-lock.yaml')) {
    return { name: 'pnpm', install: 'pnpm install --frozen-lockfile', because: 'pnpm-lock.yaml' }
  }
  if (names.has('yarn.lock')) {
    return { name: 'yarn', install: 'yarn install --frozen-lockfile', because: 'yarn.lock' }
  }
  if (names.has('package-lock.json')) {
    return { name: 'npm', install: 'npm ci', because: 'package-lock.json' }
  }
  return { name: 'npm', install: 'npm install', because: 'no lock file' }
}

function dockerGuess(look: Look): Guess {
  const port = look.dockerfile === null ? null : exposedPort(look.dockerfile)
  const reasons =
    look.dockerfile === null
      ? ['There is no Dockerfile yet: docker builds from one. Add it, or name an image instead.']
      : ['Found Dockerfile: the docker recipe builds it.']
  if (port !== null) reasons.push(`It exposes port ${port}: that is where requests go.`)
  else reasons.push('Port 3000 is a guess: put the one your program listens on.')
  const compose = COMPOSE_NAMES.find((name) => look.names.has(name))
  if (compose) {
    reasons.push(`${compose} is not read: berth config init --from-compose converts it.`)
  }
  const note = port === null ? ' # the port inside the container that your program listens on' : ''
  return {
    recipe: 'docker',
    reasons,
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

const RUN_SERVICE = [
  '  services:',
  "    web: # serves the environment's own address",
  '      port: auto # a free port, given as $PORT; two alternate, so a redeployment has no gap',
]

function nodeGuess(look: Look, scripts: Scripts): Guess {
  const { name, install, because } = packageManager(look.names)
  const steps = [install, ...(scripts.build ? [`${name} run build`] : [])]
  const built = look.staticFolder ?? 'dist'
  const found = `Found package.json (${because}): ${steps.join(', then ')}.`
  const deploy = ['  deploy:', ...steps.map((step) => `    - ${step}`)]
  if (scripts.start) {
    const run = name === 'npm' ? 'npm start' : `${name} run start`
    return {
      recipe: 'manual',
      reasons: [found, `It has a start script: Berth keeps "${run}" running. It must use $PORT.`],
      lines: ['manual:', ...deploy, ...RUN_SERVICE, `      run: exec ${run}`],
    }
  }
  return {
    recipe: 'manual',
    reasons: [found, `It has no start script: the files in ${built} are served.`],
    lines: ['manual:', ...deploy, ...staticService(built)],
  }
}

const staticService = (folder: string): string[] => [
  '  services:',
  "    web: # serves the environment's own address",
  `      root: ${folder} # the folder whose files are served`,
]

function phpGuess(look: Look): Guess {
  const steps = [
    'composer install --no-dev --no-interaction',
    ...(look.hasArtisan ? ['php artisan migrate --force'] : []),
  ]
  const run = look.hasArtisan
    ? 'exec php artisan serve --host=127.0.0.1 --port="$PORT"'
    : 'exec php -S "127.0.0.1:$PORT" -t public'
  return {
    recipe: 'manual',
    reasons: [
      `Found composer.json${look.hasArtisan ? ' and artisan' : ''}: ${steps.join(', then ')}.`,
      'It runs with the server of PHP itself: put your own in its place for real traffic.',
    ],
    lines: [
      'manual:',
      '  deploy:',
      ...steps.map((step) => `    - ${step}`),
      ...RUN_SERVICE,
      `      run: ${run}`,
    ],
  }
}

function staticGuess(folder: string): Guess {
  return {
    recipe: 'manual',
    reasons: [`Found ${folder}/index.html: the files in ${folder} are served.`],
    lines: [
      'manual:',
      '  deploy:',
      `    - test -f ${folder}/index.html # your build, if the files are made by one`,
      ...staticService(folder),
    ],
  }
}

/** Each line is a service; the steps before them are those of the language, if it is known. */
function procfileGuess(look: Look, scripts: Scripts | null): Guess {
  const { name, install, because } = packageManager(look.names)
  const build = scripts?.build ? [`${name} run build`] : []
  const steps = scripts
    ? [install, ...build]
    : look.hasComposer
      ? ['composer install --no-dev --no-interaction']
      : look.names.has('Gemfile.lock')
        ? ['bundle config set --local path vendor/bundle', 'bundle install']
        : []
  const found = scripts ? ` and package.json (${because})` : ''
  const unknown = ['    - echo "put your build here"']
  return {
    recipe: 'manual',
    reasons: [
      `Found Procfile${found}: Berth keeps the command of each line running. web must use $PORT.`,
      steps.length > 0
        ? `Before them: ${steps.join(', then ')}.`
        : 'Nothing here says how it is built: put your own commands in place of the example.',
    ],
    lines: [
      'manual:',
      '  deploy:',
      ...(steps.length > 0 ? steps.map((step) => `    - ${step}`) : unknown),
      "  procfile: Procfile # web serves the environment's own address; release runs before the switch",
    ],
  }
}

function emptyManual(): Guess {
  return {
    recipe: 'manual',
    reasons: ['Nothing here says how it runs: put your own commands in place of the examples.'],
    lines: [
      'manual:',
      '  deploy: # run in this order, in the checkout, as a user of its own',
      '    - echo "put your build here"',
      ...RUN_SERVICE,
      '      run: exec ./start --port "$PORT" # put the program that serves here',
    ],
  }
}

/** null: nothing here that commands on the server could start. */
function manualShape(look: Look): Guess | null {
  const scripts = readScripts(look.packageJson)
  if (look.names.has('Procfile')) return procfileGuess(look, scripts)
  if (look.hasComposer && !scripts?.start) return phpGuess(look)
  if (scripts && (scripts.start || scripts.build)) return nodeGuess(look, scripts)
  return look.staticFolder === null ? null : staticGuess(look.staticFolder)
}

/** A Dockerfile or a compose file means containers, and so does an unknown folder, because they fit most programs. */
export function guessServiceFile(look: Look, wanted: Recipe | undefined): Guess {
  if (wanted === 'docker') return dockerGuess(look)
  if (wanted === 'manual') return manualShape(look) ?? emptyManual()
  const hasCompose = COMPOSE_NAMES.some((name) => look.names.has(name))
  if (look.dockerfile !== null || hasCompose) return dockerGuess(look)
  return manualShape(look) ?? dockerGuess(look)
}
