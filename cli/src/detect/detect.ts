// Recognises what a folder holds and makes the files that deploy it: .service.yml, and a Dockerfile where there is none.
// One order for `config init`, `up` and `project create`, so that the recipe follows the file everywhere. PURE.
//
// Order: a compose file with several services, Dockerfile, compose file, Procfile, then by language: Rails, Laravel,
// Django, a Node.js server, Flask or FastAPI, Go, PHP, a site that is built, a static site. A program that serves goes
// before a build that only makes files.
import type { Recipe } from '@berth/shared'
import { readProcfile } from '@berth/shared/service-file'
import { ComposeError, type Conversion, convertCompose } from '../compose/convert.ts'
import { type App, type Draft, dockerDraft, manualDraft, quoted, stepLines } from './app.ts'
import { ownDockerfileDraft } from './dockerfile.ts'
import { COMPOSE_NAMES, firstOf, has, type Look, listenPort, textOf } from './look.ts'
import { nodeApp, nodeSteps } from './node.ts'
import { goApp, phpApp, railsApp, siteApp } from './other.ts'
import { pythonApp } from './python.ts'

export interface Detection {
  /** 'Dockerfile', 'Next.js', 'a static site'. */
  title: string
  /** Both recipes where both can run it, the better one first. */
  drafts: Draft[]
  /** What is there too and is not used, each a sentence. */
  also: string[]
}

/** Every program that could be meant, the likeliest first. */
function findApps(look: Look): App[] {
  const node = nodeApp(look)
  const isSite = node?.manual?.root !== undefined
  const php = phpApp(look)
  const isLaravel = php?.title === 'Laravel'
  const python = pythonApp(look)
  const isDjango = python?.title === 'Django'
  const found = [
    railsApp(look),
    isLaravel ? php : null,
    isDjango ? python : null,
    isSite ? null : node,
    isDjango ? null : python,
    goApp(look),
    isLaravel ? null : php,
    isSite ? node : null,
    siteApp(look),
  ]
  return found.filter((one) => one !== null)
}

function draftsOf(look: Look, app: App): Draft[] {
  const docker = dockerDraft(app, { ignore: has(look, '.dockerignore') })
  const manual = app.manual ? [manualDraft(app, app.manual)] : []
  // files that are there already need no container
  const isPlainSite = app.title === 'a static site'
  return isPlainSite ? [...manual, docker] : [docker, ...manual]
}

export function composeDraft(file: string, made: Conversion): Draft {
  return {
    recipe: 'docker',
    lines: made.lines,
    files: [],
    variables: made.variables,
    notConverted: made.notes,
    problem: null,
    reasons: [
      `Converted ${file}: ${made.services.join(', ')}.`,
      made.defaultService === null
        ? 'No service has an address.'
        : `${made.defaultService} serves the environment's own address.`,
    ],
  }
}

type Tried = { draft: Draft; services: number } | { error: string }

function tryCompose(look: Look, file: string): Tried {
  try {
    const made = convertCompose(textOf(look, file), '')
    return { draft: composeDraft(file, made), services: made.services.length }
  } catch (error) {
    if (error instanceof ComposeError) return { error: error.message }
    throw error
  }
}

/** For a program whose start only the Procfile says. */
function buildSteps(look: Look): string[] {
  const node = nodeSteps(look)
  if (node) return node
  if (has(look, 'composer.json')) return ['composer install --no-dev --no-interaction']
  if (has(look, 'Gemfile.lock')) {
    return ['bundle config set --local path vendor/bundle', 'bundle install']
  }
  if (has(look, 'requirements.txt')) {
    return ['python3 -m venv .venv', '.venv/bin/pip install --quiet -r requirements.txt']
  }
  return []
}

/** Each line is a service; the steps before them are those of the language, if it is known. */
function procfileDrafts(look: Look, app: App | undefined): Draft[] {
  const isServer = app?.manual !== undefined && app.manual?.root === undefined
  const steps = isServer ? (app.manual?.steps ?? []) : buildSteps(look)
  const { commands, release } = readProcfile(textOf(look, 'Procfile'))
  const language = isServer ? ` and ${app.title}` : ''
  const base = { files: [], variables: app?.variables ?? [], notConverted: [], problem: null }
  const manual: Draft = {
    ...base,
    recipe: 'manual',
    reasons: [
      `Found Procfile${language}: Berth keeps the command of each line running. web must use $PORT.`,
      steps.length > 0
        ? `Commands on the server: ${steps.join(', then ')}.`
        : 'Nothing here says how it is built: put your own commands in place of the example.',
    ],
    lines: [
      'manual:',
      ...(app?.manual?.tools
        ? [
            '  tools:',
            ...Object.entries(app.manual.tools).map(([name, one]) => `    ${name}: ${quoted(one)}`),
          ]
        : []),
      ...stepLines(steps.length > 0 ? steps : ['echo "put your build here"']),
      "  procfile: Procfile # web serves the environment's own address; release runs before the switch",
    ],
  }
  if (!app || !isServer || commands.size === 0) return [manual]
  const docker = dockerDraft(app, { ignore: has(look, '.dockerignore') })
  const services = [...commands].flatMap(([name, command]) => [
    `    ${name}:`,
    '      build: .',
    `      command: ${quoted(command)}`,
    ...(name === 'web' ? [`      port: ${app.port} # given as $PORT`] : []),
    ...(name === 'web' && release !== null ? [`      release: ${quoted(release)}`] : []),
  ])
  const reasons = [`Found Procfile: each line is a container of one image.`, ...docker.reasons]
  return [manual, { ...docker, reasons, lines: ['docker:', '  services:', ...services] }]
}

/** For a folder that says nothing, where commands on the server are wanted. */
const emptyManual = (): Draft => ({
  recipe: 'manual',
  reasons: ['Nothing here says how it runs: put your own commands in place of the examples.'],
  files: [],
  variables: [],
  notConverted: [],
  problem: 'Nothing here says how it runs: add a Dockerfile, a compose file or a Procfile.',
  lines: [
    'manual:',
    '  deploy: # run in this order, in the checkout, as a user of its own',
    '    - echo "put your build here"',
    '  services:',
    "    web: # serves the environment's own address",
    '      port: auto # a free port, given as $PORT; a redeployment has no gap',
    '      run: exec ./start --port "$PORT" # put the program that serves here',
  ],
})

export function detect(look: Look): Detection {
  const apps = findApps(look)
  const [app, ...others] = apps
  const manual = app?.manual ? [manualDraft(app, app.manual)] : []
  const composeFile = firstOf(look, COMPOSE_NAMES)
  const compose = composeFile === undefined ? undefined : tryCompose(look, composeFile)
  const dockerfile = has(look, 'Dockerfile') ? textOf(look, 'Dockerfile') : null
  const notRead =
    compose && 'error' in compose ? [`${composeFile} cannot be converted: ${compose.error}.`] : []
  if (compose && 'draft' in compose && (dockerfile === null || compose.services > 1)) {
    const also = dockerfile === null ? [] : ['Dockerfile is built as one of its services.']
    // commands on the server would leave out the other services
    const drafts = [compose.draft, ...(compose.services > 1 ? [] : manual)]
    return { title: composeFile ?? '', drafts, also }
  }
  if (dockerfile !== null) {
    const sources = [...look.texts].flatMap(([path, text]) =>
      /\.(?:[cm]?js|ts|py|go)$/.test(path) ? [text] : [],
    )
    const docker = ownDockerfileDraft(dockerfile, listenPort(sources).port)
    const hint =
      composeFile === undefined
        ? []
        : [`${composeFile} is not read: berth config init --from-compose converts it.`]
    const procfile = has(look, 'Procfile') ? procfileDrafts(look, app).slice(0, 1) : manual
    return { title: 'Dockerfile', drafts: [docker, ...procfile], also: [...hint, ...notRead] }
  }
  if (has(look, 'Procfile')) {
    return { title: 'Procfile', drafts: procfileDrafts(look, app), also: notRead }
  }
  if (app) {
    const also = others.map((one) => `${one.title} was found too, and is not used.`)
    return { title: app.title, drafts: draftsOf(look, app), also: [...also, ...notRead] }
  }
  const drafts = [ownDockerfileDraft(null, null), emptyManual()]
  return { title: 'nothing that is known', drafts, also: notRead }
}

type Choice = { draft: Draft; because: string | null } | { missing: string }

/** `supported`: what the server can run; undefined: not known yet. */
export function chooseDraft(
  { title, drafts }: Detection,
  wanted: Recipe | undefined,
  supported: readonly Recipe[] | undefined,
): Choice {
  const [best] = drafts
  if (!best) return { missing: `${title} cannot be deployed as it is.` }
  if (wanted !== undefined) {
    const empty = wanted === 'manual' ? emptyManual() : ownDockerfileDraft(null, null)
    return { draft: drafts.find((one) => one.recipe === wanted) ?? empty, because: null }
  }
  if (!supported || supported.includes(best.recipe)) return { draft: best, because: null }
  const other = drafts.find((one) => supported.includes(one.recipe) && one.problem === null)
  if (!other) return { missing: `${title} needs the ${best.recipe} recipe.` }
  const because = `The server cannot run the ${best.recipe} recipe, so the ${other.recipe} recipe is used.`
  return { draft: other, because }
}
