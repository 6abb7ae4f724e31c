// Go, PHP with Laravel, Ruby on Rails, and folders of files. PURE.
import type { App } from './app.ts'
import { firstOf, has, hasFolder, healthRoute, type Look, listenPort, textOf } from './look.ts'
import { siteStage } from './node.ts'

/** Folders that Go programs usually read at run time. */
const GO_FOLDERS = [
  'templates',
  'static',
  'public',
  'assets',
  'views',
  'web',
  'migrations',
  'config',
]

/** The folder of the main package: the root, or the only one below cmd. */
function mainPackage(look: Look): { folder: string; others: number } | null {
  const mains = [...look.texts].flatMap(([path, text]) => {
    const isMain =
      path.endsWith('.go') && !path.endsWith('_test.go') && /^package main\b/m.test(text)
    if (!isMain || !/^func main\(\)/m.test(text)) return []
    const folder = path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : '.'
    return /^[\w./-]+$/.test(folder) ? [folder] : []
  })
  const folders = [...new Set(mains)].toSorted()
  const serving = folders.filter((one) => /(?:server|web|api|app|http)/.test(one))
  const folder = folders.includes('.') ? '.' : folders.length === 1 ? folders[0] : serving[0]
  return folder === undefined ? null : { folder, others: folders.length - 1 }
}

export function goApp(look: Look): App | null {
  const module = textOf(look, 'go.mod')
  if (module === '') return null
  const main = mainPackage(look)
  if (!main) return null
  const version = /^go (1\.\d{1,2})/m.exec(module)?.[1] ?? '1.25'
  const sources = [...look.texts].flatMap(([path, text]) => (path.endsWith('.go') ? [text] : []))
  const listens = listenPort(sources)
  const port = listens.port ?? 8080
  const place = main.folder === '.' ? '.' : `./${main.folder}`
  const sum = has(look, 'go.sum') ? ' go.sum' : ''
  const cache = '--mount=type=cache,target=/go/pkg/mod'
  const flags = `-trimpath -ldflags='-s -w'`
  return {
    title: 'Go',
    reasons: [
      `Found Go ${version}: go.mod, and the main package in ${main.folder === '.' ? 'the root' : main.folder}.`,
      ...(main.others > 0
        ? [`It has ${main.others} more main packages; this one looks like the server.`]
        : []),
      listens.reads
        ? 'It reads $PORT.'
        : listens.port === null
          ? `Port ${port} is a guess: put the one your program listens on.`
          : `It listens on port ${port}.`,
    ],
    port,
    health: healthRoute(sources),
    dockerfile: [
      `FROM golang:${version} AS build`,
      'WORKDIR /src',
      `COPY go.mod${sum} ./`,
      `RUN ${cache} go mod download`,
      'COPY . .',
      `RUN ${cache} --mount=type=cache,target=/root/.cache/go-build CGO_ENABLED=0 go build ${flags} -o /out/app ${place}`,
      '',
      'FROM alpine:3',
      'RUN adduser -D -u 1000 app',
      'WORKDIR /app',
      'COPY --from=build /out/app /usr/local/bin/app',
      ...GO_FOLDERS.filter((one) => hasFolder(look, one)).map(
        (one) => `COPY --chown=app:app ${one} ./${one}`,
      ),
      `ENV PORT=${port}`,
      'USER app',
      `EXPOSE ${port}`,
      'CMD ["/usr/local/bin/app"]',
    ],
    ignore: ['bin', '*.test', 'coverage.out'],
    manual: {
      steps: [`go build ${flags} -o bin/app ${place}`],
      run: './bin/app',
      ...(listens.reads || listens.port === null ? {} : { port: listens.port }),
    },
    variables: [],
  }
}

/** One step that makes the files of a page, where package.json has a build. */
const buildsAssets = (look: Look): boolean => /"build"\s*:/.test(textOf(look, 'package.json'))

export function phpApp(look: Look): App | null {
  if (!has(look, 'composer.json')) return null
  const isLaravel = has(look, 'artisan')
  const composer = textOf(look, 'composer.json')
  const named = /"php"\s*:\s*"[^"\d]*(8\.\d)/.exec(composer)?.[1]
  const version =
    named !== undefined && ['8.2', '8.3', '8.4', '8.5'].includes(named) ? named : '8.4'
  const root = hasFolder(look, 'public') ? 'public' : '.'
  if (!isLaravel && !has(look, root === '.' ? 'index.php' : 'public/index.php')) return null
  const html = '/var/www/html'
  const lock = has(look, 'composer.lock') ? ' composer.lock' : ''
  const assets = buildsAssets(look)
  const install = 'composer install --no-dev --no-interaction --prefer-dist'
  const hasUp = /health:\s*['"]\/up['"]/.test(textOf(look, 'bootstrap/app.php'))
  return {
    title: isLaravel ? 'Laravel' : 'PHP',
    reasons: [
      isLaravel ? 'Found Laravel: artisan and composer.json.' : 'Found PHP: composer.json.',
      `PHP ${version} runs in Apache; requests go to ${root === '.' ? 'the root' : root}.`,
    ],
    port: 8080,
    health: hasUp ? '/up' : null,
    ...(isLaravel ? { release: 'php artisan migrate --force' } : {}),
    dockerfile: [
      'FROM composer:2 AS vendor',
      'WORKDIR /app',
      `COPY composer.json${lock} ./`,
      `RUN --mount=type=cache,target=/tmp/cache ${install} --no-scripts --no-autoloader --ignore-platform-reqs`,
      'COPY . .',
      'RUN composer dump-autoload --no-dev --optimize --no-scripts --ignore-platform-reqs',
      ...(assets
        ? [
            '',
            'FROM node:24-slim AS assets',
            'WORKDIR /app',
            'COPY --from=vendor /app ./',
            `RUN --mount=type=cache,target=/root/.npm ${has(look, 'package-lock.json') ? 'npm ci' : 'npm install'}`,
            'RUN npm run build && rm -rf node_modules',
          ]
        : []),
      '',
      `FROM php:${version}-apache`,
      'RUN apt-get update && apt-get install -y --no-install-recommends libpq-dev && rm -rf /var/lib/apt/lists/* \\',
      ' && docker-php-ext-install opcache pdo_mysql pdo_pgsql \\',
      ' && a2enmod rewrite \\',
      " && sed -i 's/Listen 80/Listen 8080/' /etc/apache2/ports.conf \\",
      ` && sed -i 's!:80>!:8080>!; s!${html}!${html}${root === '.' ? '' : `/${root}`}!' /etc/apache2/sites-available/000-default.conf`,
      `WORKDIR ${html}`,
      `COPY --from=${assets ? 'assets' : 'vendor'} --chown=www-data:www-data /app ./`,
      'USER www-data',
      'EXPOSE 8080',
    ],
    ignore: ['vendor', 'node_modules', 'storage/logs/*', 'bootstrap/cache/*.php'],
    manual: {
      steps: [install],
      run: isLaravel
        ? 'php artisan serve --host=127.0.0.1 --port="$PORT"'
        : `php -S "127.0.0.1:$PORT" -t ${root}`,
    },
    variables: isLaravel
      ? [
          {
            key: 'APP_KEY',
            services: ['web'],
            reason: 'encrypts the sessions of Laravel',
            make: 'laravel',
          },
        ]
      : [],
  }
}

export function railsApp(look: Look): App | null {
  const gems = textOf(look, 'Gemfile')
  if (!/^\s*gem\s+['"]rails['"]/m.test(gems) || !has(look, 'config/application.rb')) return null
  const named = /(3\.\d)/.exec(textOf(look, '.ruby-version'))?.[1]
  const version = named !== undefined && ['3.2', '3.3', '3.4'].includes(named) ? named : '3.4'
  const hasUp = /rails\/health#show|get ['"]\/?up['"]/.test(textOf(look, 'config/routes.rb'))
  const assets =
    /gem\s+['"](?:sprockets-rails|propshaft|tailwindcss-rails|jsbundling-rails)['"]/.test(gems)
  const packages = [
    ...(/gem\s+['"]pg['"]/.test(gems) ? ['libpq'] : []),
    ...(/gem\s+['"]mysql2['"]/.test(gems) ? ['libmariadb'] : []),
    ...(/gem\s+['"]sqlite3['"]/.test(gems) ? ['libsqlite3'] : []),
  ]
  const linked: Record<string, string> = {
    libpq: 'libpq5',
    libmariadb: 'libmariadb3',
    libsqlite3: 'libsqlite3-0',
  }
  const apt = (names: readonly string[]): string =>
    `RUN apt-get update && apt-get install -y --no-install-recommends ${names.join(' ')} && rm -rf /var/lib/apt/lists/*`
  const lock = has(look, 'Gemfile.lock') ? ' Gemfile.lock' : ''
  const env = 'ENV RAILS_ENV=production BUNDLE_PATH=/bundle BUNDLE_WITHOUT=development:test'
  return {
    title: 'Ruby on Rails',
    reasons: [
      'Found Ruby on Rails: Gemfile and config/application.rb.',
      `It runs with Ruby ${version}.`,
    ],
    port: 3000,
    health: hasUp ? '/up' : null,
    release: 'bundle exec rails db:prepare',
    dockerfile: [
      `FROM ruby:${version}-slim AS build`,
      apt(['build-essential', 'git', 'libyaml-dev', ...packages.map((one) => `${one}-dev`)]),
      'WORKDIR /app',
      env,
      `COPY Gemfile${lock} ./`,
      'RUN --mount=type=cache,target=/usr/local/bundle/cache bundle install',
      'COPY . .',
      ...(assets ? ['RUN SECRET_KEY_BASE_DUMMY=1 bundle exec rails assets:precompile'] : []),
      '',
      `FROM ruby:${version}-slim`,
      apt(['libyaml-0-2', ...packages.map((one) => linked[one] ?? one)]),
      'RUN useradd --create-home --uid 1000 app',
      'WORKDIR /app',
      `${env} RAILS_LOG_TO_STDOUT=1 RAILS_SERVE_STATIC_FILES=1 PORT=3000`,
      'COPY --from=build /bundle /bundle',
      'COPY --from=build --chown=app:app /app ./',
      'USER app',
      'EXPOSE 3000',
      'CMD ["bundle", "exec", "rails", "server", "--binding", "0.0.0.0", "--port", "3000"]',
    ],
    ignore: ['tmp', 'log', 'node_modules', 'storage', 'config/master.key'],
    manual: {
      steps: ['bundle config set --local path vendor/bundle', 'bundle install'],
      run: 'bundle exec rails server --binding 127.0.0.1 --port "$PORT"',
    },
    variables: [
      {
        key: 'SECRET_KEY_BASE',
        services: ['web'],
        reason: 'signs the sessions of Rails',
        make: 'hex',
      },
      ...(has(look, 'config/credentials.yml.enc')
        ? [
            {
              key: 'RAILS_MASTER_KEY',
              services: ['web'],
              reason: 'opens config/credentials.yml.enc',
            },
          ]
        : []),
    ],
  }
}

/** Where generators and users put a site, in search order. */
const SITES = ['public', 'dist', 'build', 'site', 'www', 'html', '_site', 'docs'] as const

export function siteApp(look: Look): App | null {
  const at = firstOf(look, ['index.html', ...SITES.map((one) => `${one}/index.html`)])
  if (at === undefined) return null
  const folder = at.includes('/') ? at.slice(0, at.indexOf('/')) : '.'
  return {
    title: 'a static site',
    reasons: [`Found ${at}: the files in ${folder === '.' ? 'the root' : folder} are served.`],
    port: 8080,
    health: '/',
    dockerfile: siteStage(folder === '.' ? '.' : `./${folder}`, false, null),
    ignore: ['node_modules'],
    manual: { steps: [`test -f ${at} # your build, if the files are made by one`], root: folder },
    variables: [],
  }
}
