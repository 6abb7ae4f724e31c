// Python: Django, Flask, FastAPI; how its packages are installed, and the Dockerfile for them. PURE.
import type { App } from './app.ts'
import { has, healthRoute, type Look, textOf } from './look.ts'

const VERSIONS = ['3.10', '3.11', '3.12', '3.13', '3.14', '3.13']

function pythonVersion(look: Look): { version: string; named: boolean } {
  const requires = /requires-python\s*=\s*"[^"]*?(3\.\d{1,2})/.exec(textOf(look, 'pyproject.toml'))
  const pipfile = /python_version\s*=\s*"(3\.\d{1,2})"/.exec(textOf(look, 'Pipfile'))
  const named = [
    /(3\.\d{1,2})/.exec(textOf(look, '.python-version'))?.[1],
    /python-(3\.\d{1,2})/.exec(textOf(look, 'runtime.txt'))?.[1],
    pipfile?.[1],
  ].find((one) => one !== undefined && VERSIONS.includes(one))
  if (named) return { version: named, named: true }
  const usual = VERSIONS.at(-1) ?? ''
  // "3.14 or newer" must not get an older one; a lower bound does not name a version
  const least = requires?.[1]
  const isNewer = least !== undefined && Number(least.slice(2)) > Number(usual.slice(2))
  return { version: isNewer && VERSIONS.includes(least) ? least : usual, named: false }
}

interface Installer {
  because: string
  /** Lines of the build stage; the virtual environment /venv is active. `more`: packages of our own. */
  image(more: readonly string[]): string[]
  /** Commands on a server, where .venv is used. */
  steps(more: readonly string[]): string[]
}

const PIP = 'RUN --mount=type=cache,target=/root/.cache/pip'
const VENV = 'python3 -m venv .venv'
const also = (program: string, more: readonly string[], before: string): string[] =>
  more.length === 0 ? [] : [`${before}${program} install ${more.join(' ')}`]

function installerOf(look: Look): Installer | null {
  const project = has(look, 'pyproject.toml')
  if (project && has(look, 'uv.lock')) {
    return {
      because: 'uv.lock: uv',
      image: (more) => [
        `${PIP} pip install uv`,
        'ENV UV_PROJECT_ENVIRONMENT=/venv UV_LINK_MODE=copy',
        'COPY pyproject.toml uv.lock ./',
        'RUN --mount=type=cache,target=/root/.cache/uv uv sync --frozen --no-dev --no-install-project --inexact',
        ...also('uv pip', more, 'RUN --mount=type=cache,target=/root/.cache/uv VIRTUAL_ENV=/venv '),
      ],
      steps: (more) => ['uv sync --frozen --no-dev', ...also('uv pip', more, 'VIRTUAL_ENV=.venv ')],
    }
  }
  if (project && has(look, 'poetry.lock')) {
    return {
      because: 'poetry.lock: Poetry',
      image: (more) => [
        `${PIP} python -m venv /poetry && /poetry/bin/pip install "poetry>=2,<3"`,
        'COPY pyproject.toml poetry.lock ./',
        'RUN --mount=type=cache,target=/root/.cache/pypoetry VIRTUAL_ENV=/venv /poetry/bin/poetry install --only main --no-root',
        ...also('pip', more, `${PIP} `),
      ],
      steps: (more) => [
        VENV,
        'VIRTUAL_ENV="$PWD/.venv" poetry install --only main --no-root',
        ...also('.venv/bin/pip', more, ''),
      ],
    }
  }
  if (has(look, 'Pipfile.lock')) {
    return {
      because: 'Pipfile.lock: Pipenv',
      image: (more) => [
        `${PIP} python -m venv /pipenv && /pipenv/bin/pip install pipenv`,
        'COPY Pipfile Pipfile.lock ./',
        'RUN --mount=type=cache,target=/root/.cache/pipenv VIRTUAL_ENV=/venv /pipenv/bin/pipenv sync',
        ...also('pip', more, `${PIP} `),
      ],
      steps: (more) => [
        VENV,
        'VIRTUAL_ENV="$PWD/.venv" pipenv sync',
        ...also('.venv/bin/pip', more, ''),
      ],
    }
  }
  if (has(look, 'requirements.txt')) {
    const words = (more: readonly string[]) => ['-r requirements.txt', ...more].join(' ')
    return {
      because: 'requirements.txt: pip',
      image: (more) => ['COPY requirements.txt ./', `${PIP} pip install ${words(more)}`],
      steps: (more) => [VENV, `.venv/bin/pip install --quiet ${words(more)}`],
    }
  }
  if (!project) return null
  const words = (more: readonly string[]) => ['.', ...more].join(' ')
  return {
    because: 'pyproject.toml: pip',
    image: (more) => ['COPY . .', `${PIP} pip install ${words(more)}`],
    steps: (more) => [VENV, `.venv/bin/pip install --quiet ${words(more)}`],
  }
}

const MODULE = '[A-Za-z_]\\w{0,60}'

/** `shop/main.py` → `shop.main` */
const moduleOf = (path: string): string =>
  path
    .replace(/\.py$/, '')
    .replace(/\/__init__$/, '')
    .replaceAll('/', '.')

/** The file and variable that hold the application: `app = Flask(__name__)`. */
function findObject(
  look: Look,
  type: string,
): { module: string; name: string; text: string } | null {
  const assigned = new RegExp(`^(${MODULE})(?:\\s*:[^=\\n]*)?\\s*=\\s*(?:\\w+\\.)?${type}\\(`, 'm')
  const files = [...look.texts].filter(([path]) => /^[\w/]+\.py$/.test(path))
  const rank = ([path]: readonly [string, string]): number =>
    ['main', 'app', 'wsgi', 'server', 'application'].indexOf(
      path.split('/').at(-1)?.slice(0, -3) ?? '',
    )
  const order = files.toSorted((a, b) => ((rank(a) + 10) % 11) - ((rank(b) + 10) % 11))
  for (const [path, text] of order) {
    const name = assigned.exec(text)?.[1]
    if (name) return { module: moduleOf(path), name, text }
  }
  const factory = files.find(([, text]) => /^def create_app\(/m.test(text) && text.includes(type))
  if (!factory) return null
  return { module: moduleOf(factory[0]), name: 'create_app()', text: factory[1] }
}

const IGNORE = [
  '__pycache__',
  '*.pyc',
  '.venv',
  'venv',
  '.pytest_cache',
  '.mypy_cache',
  'db.sqlite3',
]

interface Serving {
  title: string
  because: string
  /** Program and its words, without the address. */
  words: string[]
  /** Packages that the program needs and the repository may not list. */
  packages: string[]
  health: string | null
  release?: string
  reasons: string[]
}

const GUNICORN = ['gunicorn', '--access-logfile', '-']

function servingOf(look: Look, depends: string): Serving | null {
  const manage = textOf(look, 'manage.py')
  const settings = /DJANGO_SETTINGS_MODULE['"]\s*,\s*['"]([\w.]{1,120})['"]/.exec(manage)?.[1]
  if (settings && /^[\w.]+$/.test(settings)) {
    const folder = settings.split('.')[0] ?? ''
    const text = [...look.texts]
      .flatMap(([path, one]) => (path.startsWith(`${folder}/`) ? [one] : []))
      .join('\n')
    const isOutside = /DATABASE_URL|environ|env\(|getenv|config\(/.test(
      /DATABASES\s*=[\s\S]{0,800}/.exec(text)?.[0] ?? '',
    )
    return {
      title: 'Django',
      because: `manage.py names ${settings}`,
      words: [...GUNICORN, `${folder}.wsgi`],
      packages: ['gunicorn'],
      health: healthRoute([text]),
      ...(isOutside ? { release: 'python manage.py migrate --noinput' } : {}),
      reasons: [
        ...(isOutside
          ? ['Its database comes from variables: migrations run before each new version serves.']
          : ['Its database is a file in the checkout, which is new with each deployment.']),
        'Its domain must be in ALLOWED_HOSTS: SERVICE_DOMAIN has it.',
      ],
    }
  }
  const isFast = /\bfastapi\b/i.test(depends)
  const fast = isFast ? findObject(look, 'FastAPI') : null
  if (fast) {
    return {
      title: 'FastAPI',
      because: `${fast.module} has ${fast.name}`,
      words: [
        'uvicorn',
        ...(fast.name.endsWith('()') ? ['--factory'] : []),
        `${fast.module}:${fast.name.replace('()', '')}`,
      ],
      packages: ['uvicorn'],
      health: healthRoute([fast.text]),
      reasons: [],
    }
  }
  const flask = /\bflask\b/i.test(depends) ? findObject(look, 'Flask') : null
  if (!flask) return null
  return {
    title: 'Flask',
    because: `${flask.module} has ${flask.name}`,
    words: [...GUNICORN, `${flask.module}:${flask.name}`],
    packages: ['gunicorn'],
    health: healthRoute([flask.text]),
    reasons: [],
  }
}

/** Libraries that packages without wheels are linked to, in the last stage. */
function libraries(depends: string): string[] {
  return [
    ...(/\bpsycopg2?\b(?!-binary|\[binary)/i.test(depends) ? ['libpq5'] : []),
    ...(/\bmysqlclient\b/i.test(depends) ? ['libmariadb3'] : []),
  ]
}

export function pythonApp(look: Look): App | null {
  const installer = installerOf(look)
  if (!installer) return null
  const depends = ['requirements.txt', 'pyproject.toml', 'Pipfile']
    .map((path) => textOf(look, path))
    .join('\n')
  const serving = servingOf(look, depends)
  if (!serving) return null
  const { version, named } = pythonVersion(look)
  const port = 8000
  const isAsgi = serving.words[0] === 'uvicorn'
  const at = (host: string, where: string): string[] =>
    isAsgi ? ['--host', host, '--port', where] : ['--bind', `${host}:${where}`]
  const [program = '', ...words] = serving.words
  const missing = serving.packages.filter((one) => !new RegExp(`\\b${one}\\b`, 'i').test(depends))
  const needed = libraries(depends)
  const command = [program, ...at('0.0.0.0', String(port)), ...words]
  return {
    title: serving.title,
    reasons: [
      `Found ${serving.title}: ${serving.because}.`,
      `Packages are installed with ${installer.because.split(': ')[1]} (${installer.because.split(':')[0]}).`,
      ...(missing.length > 0 ? [`${missing.join(', ')} is added, which serves it.`] : []),
      ...serving.reasons,
    ],
    port,
    health: serving.health,
    ...(serving.release === undefined ? {} : { release: serving.release }),
    dockerfile: [
      `FROM python:${version}${needed.length > 0 ? '' : '-slim'} AS build`,
      'WORKDIR /app',
      'RUN python -m venv /venv',
      'ENV PATH=/venv/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1',
      ...installer.image(missing),
      '',
      `FROM python:${version}-slim`,
      ...(needed.length > 0
        ? [
            `RUN apt-get update && apt-get install -y --no-install-recommends ${needed.join(' ')} && rm -rf /var/lib/apt/lists/*`,
          ]
        : []),
      'WORKDIR /app',
      'RUN useradd --create-home --uid 1000 app && chown app:app /app',
      `ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PORT=${port}`,
      'COPY --from=build /venv /venv',
      'COPY --chown=app:app . .',
      'USER app',
      `EXPOSE ${port}`,
      `CMD ${JSON.stringify(command)}`,
    ],
    ignore: IGNORE,
    manual: {
      ...(named ? { tools: { python: version } } : {}),
      steps: installer.steps(missing),
      ...(serving.release === undefined ? {} : { release: `.venv/bin/${serving.release}` }),
      run: [`.venv/bin/${program}`, ...at('127.0.0.1', '"$PORT"'), ...words.map(shellWord)].join(
        ' ',
      ),
    },
    variables: [],
  }
}

/** `create_app()` needs quotes in a shell. */
const shellWord = (word: string): string => (/^[\w.:/-]+$/.test(word) ? word : `'${word}'`)
