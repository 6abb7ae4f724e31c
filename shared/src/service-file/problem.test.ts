// Every code has files that provoke it. The mark » shows the expected position and is removed before the file is read.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of the file, not of JavaScript
import { describe, expect, it } from 'vitest'
import { ERROR_CODES, readServiceFile, WARNING_CODES } from './index.ts'
import type { ProblemCode } from './problem.ts'

/** Sources by code: [source with », message]. A source has exactly one problem unless stated otherwise. */
const CASES: Record<ProblemCode, [source: string, message: string][]> = {
  invalid_yaml: [
    ['a: »b: c', "a second ': ' stands on this line; quote the value or begin a new line"],
    ['docker:\n»\tservices: 1', 'a tab cannot indent a line; use spaces'],
    ['docker: { services: [a\n»', "a '[' or '{' that was opened is not closed"],
    ['a: "b\n»', 'a quote that was opened is not closed'],
    ['a: »@b', 'text cannot begin with this character unless it is quoted'],
    ['a: »!secret b', 'tags such as !name are not supported'],
    ['a: »!!binary b', 'tags such as !name are not supported'],
    [
      'a: 1\n»---\nb: 1',
      "the file must hold one document; remove the second '---' and what follows",
    ],
    ['»%YAML 1.1\n---\na: 1', "YAML 1.1 is not supported; remove the '%YAML' line"],
    [
      'a: [»*.csv]',
      "'*.csv' repeats a value named '&.csv', and there is none above it; quote text that begins with '*'",
    ],
    ['a: &b [»*b]', "'*b' stands inside the value it repeats"],
    ['x-a: { <<: »b }\nmanual: { deploy: [x] }', "'<<' needs a map to merge, or a list of maps"],
    ['»[a, b]: c\nmanual: { deploy: [x] }', 'a key must be text, not a list or a map'],
  ],
  duplicate_key: [
    [
      'manual:\n  deploy: [x]\n  »deploy: [y]',
      "'deploy' is given twice in manual (first on line 2)",
    ],
    ['manual: { deploy: [x] }\n»"manual": {}', "'manual' is given twice (first on line 1)"],
    [
      'x-a: &a { env: { A: b } }\nmanual: { <<: *a, »<<: *a, deploy: [x] }',
      "'<<' is given twice in manual (first on line 2); write one '<<: [*a, *b]'",
    ],
  ],
  too_complex: [
    [`»# ${'x'.repeat(65_536)}`, 'the file has 65,538 bytes; at most 65,536 are read'],
    ['a: [[[[[[[[[[[»[]]]]]]]]]]]]', 'the file is too complex: it nests deeper than 12 levels'],
  ],
  unknown_key: [
    [
      '»foo: 1\nmanual: { deploy: [x] }',
      "unknown key 'foo'; known keys: version, docker, manual, actions",
    ],
    ['»manaul: { deploy: [x] }', "unknown key 'manaul'; did you mean 'manual'?"],
    ['manual: { »deplyo: [x] }', "unknown key 'deplyo' in manual; did you mean 'deploy'?"],
    [
      'docker: { services: { web: { image: a, port: 80, »x-note: b } } }',
      "unknown key 'x-note' in docker.services.web; known keys: build, image, command, entrypoint, user, port, public, domain, path, default, auth, health, env, variables, release, backup, depends_on, volumes, tmpfs, shm_size, replicas, restart, memory, cpus, stop_timeout, stop_signal, drain",
    ],
    [
      'docker: { services: { web: { image: a, port: 80, »environment: { A: b } } } }',
      "unknown key 'environment' in docker.services.web; did you mean 'env'?",
    ],
    [
      'manual: { deploy: [x], services: { web: { port: auto, run: y, »replicas: 2 } } }',
      "manual.services.web.replicas is not possible: a manual service is one process on one port; start more workers inside its 'run', or use the docker recipe",
    ],
  ],
  missing_key: [
    ['»', "the file is empty; it needs 'docker' or 'manual'"],
    ['»version: 1', "the file needs 'docker' or 'manual'"],
    ['»docker: {}', "docker needs 'services'"],
    [
      'docker: { services: { db: { image: postgres, »backup: { command: pg_dump } } } }',
      "docker.services.db.backup needs 'restore'",
    ],
    [
      'docker: { services: { »web: { port: 80 } } }',
      "docker.services.web needs 'build' or 'image'",
    ],
    ['manual: { deploy: [»{ name: a }] }', "manual.deploy.0 needs 'run'"],
    [
      'manual: { deploy: [x], services: { »web: { path: /a } } }',
      "manual.services.web needs 'port', 'socket', 'root' or 'run'",
    ],
    [
      'manual: { deploy: [x], services: { web: { port: 1, »stop_timeout: 5s } } }',
      "manual.services.web.stop_timeout is of use only with 'run'; add 'run' or remove 'stop_timeout'",
    ],
    [
      'docker: { services: { web: { image: a, »domain: a.example.com } } }',
      "docker.services.web has 'domain' but nothing to route to; add 'port'",
    ],
    [
      'manual: { deploy: [x], services: { a: { run: b, »default: true } } }',
      "manual.services.a has 'default' but nothing to route to; add 'port', 'socket' or 'root'",
    ],
    [
      'docker: { services: { a: { image: a }, b: { image: a } } }\nactions: { »c: { run: x } }',
      "actions.c needs 'service': no docker service is the default one (services: a, b)",
    ],
  ],
  invalid_type: [
    ['»[a]', 'the file must be a map, got a list'],
    ['docker: »true', 'docker must be a map, got true'],
    ['»docker:', 'docker must be a map, got nothing'],
    [
      'docker: { services: { web: { image: a, port: »"80" } } }',
      'docker.services.web.port must be a whole number from 1 to 65535, got text "80"; remove the quotes',
    ],
    [
      'docker: { services: { web: { image: a, command: [»80] } } }',
      'docker.services.web.command.0 must be text, got number 80; put it in quotes',
    ],
    [
      'docker: { services: { web: { image: a, port: 80, health: »[a] } } }',
      "docker.services.web.health must be a path such as /up, a map with 'path', 'command' or 'port', or false, got a list",
    ],
    [
      'docker: { services: { web: { build: »8, port: 80 } } }',
      "docker.services.web.build must be a path inside the repository, relative, without '..', or a map with context, dockerfile, target, args, secrets, ssh, got number 8; put it in quotes",
    ],
    ['manual: { deploy: »x }', 'manual.deploy must be a list of commands, got text "x"'],
    [
      'manual: { deploy: [»[x]] }',
      "manual.deploy.0 must be a command, or a map with 'run', got a list",
    ],
    [
      'manual: { deploy: [x] }\nactions: { a: { run: x, confirm: »[] } }',
      'actions.a.confirm must be true, false, or a question of at most 300 letters, got a list',
    ],
    [
      'manual: { deploy: [x], env: { A: »[b] } }',
      'manual.env.A must be text, a number, true or false, got a list',
    ],
  ],
  invalid_value: [
    [
      'manual: { deploy: [x], shared: [»a/../b] }',
      "manual.shared.0 must be a path such as storage, without '.', '..' and '//', got \"a/../b\"",
    ],
    [
      'manual: { deploy: [x], shared: [»./a] }',
      "manual.shared.0 must be a path such as storage, without '.', '..' and '//', got \"./a\"",
    ],
    [
      'manual: { deploy: [x], shared: [»a/b, a/] }',
      "manual.shared has 'a', which holds 'a/b'; remove 'a/b'",
    ],
    [
      'docker: { services: { web: { build: { args: { A: »"${service.web}" } } } } }',
      "docker.services.web.build.args.A holds '${service.web}', which is not a system variable, ${service.<name>.url} or a custom variable; a literal '${' is written '$${'",
    ],
    [
      'docker: { services: { web: { build: { args: { A: »"${BERTH_X}" } } } } }',
      "docker.services.web.build.args.A holds '${BERTH_X}', which is not a system variable, ${service.<name>.url} or a custom variable; a literal '${' is written '$${'",
    ],
    [
      'docker: { services: { web: { build: { args: { A: »"a ${hidden" } } } } }',
      "docker.services.web.build.args.A holds '${', which is not a system variable, ${service.<name>.url} or a custom variable; a literal '${' is written '$${'",
    ],
    [
      'docker: { services: { web: { build: { ssh: »default } } } }',
      'docker.services.web.build.ssh must be deploy, for the project\'s deploy key, got "default"',
    ],
    [
      'version: »2\nmanual: { deploy: [x] }',
      'version must be 1, the only version of this format, got 2',
    ],
    [
      'docker: { services: { web: { image: a, port: »70000 } } }',
      'docker.services.web.port must be a whole number from 1 to 65535, got 70000',
    ],
    [
      'manual: { deploy: [x], services: { web: { port: »any } } }',
      'manual.services.web.port must be a whole number from 1 to 65535, or auto, got "any"',
    ],
    ['docker: { services: »{} }', 'docker.services needs at least 1 service'],
    ['manual: { deploy: »[] }', 'manual.deploy needs at least 1 step'],
    [
      'docker: { volumes: [a, »a], services: { web: { image: a } } }',
      "docker.volumes names 'a' twice; remove one",
    ],
    [
      'manual: { deploy: [{ run: x, timeout: »10 m }] }',
      'manual.deploy.0.timeout must be a duration such as 30s, 10m, 2h or 7d, got "10 m"',
    ],
    [
      'manual: { deploy: [{ run: x, timeout: »7h }] }',
      'manual.deploy.0.timeout must be at most 6h, got "7h"',
    ],
    [
      'docker: { services: { web: { image: a, port: 80, health: »true } } }',
      "docker.services.web.health must be a path such as /up, a map with 'path', 'command' or 'port', or false, got true",
    ],
    [
      'docker: { services: { web: { image: a, port: 80, health: »/a b } } }',
      'docker.services.web.health must not hold spaces',
    ],
    [
      'docker: { services: { web: { build: »../up } } }',
      'docker.services.web.build must be a path inside the repository, relative, without \'..\', or a map with context, dockerfile, target, args, secrets, ssh, got "../up"',
    ],
    [
      'manual: { deploy: [x] }\nactions: { a: { run: x, artifacts: { paths: [»"**/**/**/**/**/{a,b}"] } } }',
      "actions.a.artifacts.paths.0 has 6 of '**' and '{'; at most 5 are possible",
    ],
    [
      'manual: { deploy: [x] }\nactions: { a: { run: x, dir: »../b } }',
      "actions.a.dir must be a path inside the repository, relative, without '..', got '../b'",
    ],
    [
      'manual: { deploy: [»"a\\0b"] }',
      'manual.deploy.0 holds a character that cannot be passed on (NUL, or half of a pair)',
    ],
    [
      'docker: { services: { web: { image: a, memory: »9999999g } } }',
      'docker.services.web.memory must be at most 4096g, got "9999999g"',
    ],
    [
      'manual: { deploy: [x] }\nactions: { a: { run: x, result: »dir } }',
      'actions.a.result must be file (and is of no use: declare the files in artifacts.paths), got "dir"',
    ],
  ],
  invalid_name: [
    [
      'docker: { services: { »My Web: { image: a, port: 80 } } }',
      "service name 'My Web' must be lower case letters, digits and dashes, for example 'my-web'",
    ],
    ['docker: { services: { »1a: { image: a } } }', "service name '1a' must begin with a letter"],
    [
      `manual: { deploy: [x] }\nactions: { »${'a'.repeat(40)}: { run: x } }`,
      `action name '${'a'.repeat(40)}' must be at most 39 characters long`,
    ],
    [
      'manual: { deploy: [x], env: { »a-b: c } }',
      "variable name 'a-b' must be letters, digits and underscores, for example 'a_b'",
    ],
    [
      'docker: { volumes: [»Data], services: { web: { image: a } } }',
      "docker.volumes.0 must be lower case letters, digits and dashes, for example 'data'",
    ],
  ],
  conflicting_keys: [
    [
      'docker: { services: { web: { image: a, port: 80, public: false, »domain: a.example.com } } }',
      "docker.services.web has 'domain' but 'public: false'; remove one of them",
    ],
    [
      'docker: { services: { web: { image: a, port: 80, health: { command: a, »path: /up } } } }',
      "docker.services.web.health has both 'command' and 'path'; keep one",
    ],
    [
      'docker: { services: { web: { build: ., »image: a } } }',
      "docker.services.web has both 'build' and 'image'; keep one",
    ],
    [
      'x-a: &a { build: . }\ndocker: { services: { web: { image: a, <<: »*a } } }',
      "docker.services.web has both 'image' and 'build'; keep one",
    ],
    [
      'manual: { deploy: [x], services: { web: { socket: a, »port: 1 } } }',
      "manual.services.web has both 'socket' and 'port'; keep one",
    ],
    [
      'manual: { deploy: [x], services: { web: { root: a, »run: b } } }',
      "manual.services.web has both 'root' and 'run'; keep one",
    ],
  ],
  unknown_service: [
    [
      'docker: { services: { web: { image: a, depends_on: [»db] } } }',
      "docker.services.web depends on 'db', which is not a service (services: web)",
    ],
    [
      'docker: { services: { web: { image: a } } }\nactions: { a: { run: x, service: »api } }',
      "actions.a names service 'api', which is not a docker service (services: web)",
    ],
    [
      'docker: { services: { web: { port: 1, build: { args: { A: »"x ${service.api.url}" } } } } }',
      "docker.services.web.build.args.A holds '${service.api.url}', which is not a service (services with an address: web)",
    ],
    [
      'docker: { services: { web: { build: { args: { A: »"${service.db.url}" } } }, db: { image: a } } }',
      "docker.services.web.build.args.A holds '${service.db.url}', which has no address (services with an address: none)",
    ],
  ],
  unknown_volume: [
    [
      'docker: { services: { db: { image: a, volumes: [»"data:/srv"] } } }',
      "docker.services.db uses volume 'data', which is not in docker.volumes (there is none)",
    ],
    [
      'docker: { volumes: [b], services: { db: { image: a, volumes: ["b:/b", »"data:/srv:ro"] } } }',
      "docker.services.db uses volume 'data', which is not in docker.volumes (it has: b)",
    ],
  ],
  dependency_cycle: [
    [
      'docker: { services: { a: { image: a, depends_on: [»a] } } }',
      'docker.services.a waits for itself: a → a; remove one of these',
    ],
    [
      'docker: { services: { a: { image: a, depends_on: [b] }, b: { image: a, depends_on: [c] }, c: { image: a, depends_on: [»b] } } }',
      'docker.services.c waits for itself: b → c → b; remove one of these',
    ],
  ],
  several_defaults: [
    [
      'docker: { services: { a: { image: a, port: 1, default: true }, b: { image: a, port: 1, default: »true } } }',
      "docker.services.b and docker.services.a are both 'default: true'; keep one",
    ],
  ],
  duplicate_route: [
    [
      'docker: { services: { web: { image: a, port: 1 }, api: { image: a, port: 1, path: »/ } } }',
      "docker.services.api and docker.services.web would both answer at ${SERVICE_DOMAIN}/; give one of them another 'path' or 'domain'",
    ],
    [
      'docker: { services: { web: { image: a, port: 1 }, a: { image: a, port: 1, domain: A.example.com, path: /x }, b: { image: a, port: 1, domain: »a.Example.com, path: /x/ } } }',
      "docker.services.b and docker.services.a would both answer at a.example.com/x; give one of them another 'path' or 'domain'",
    ],
    [
      'docker: { services: { web: { image: a, port: 1 }, a: { image: a, port: 1, domain: "b-${SERVICE_DOMAIN}" }, »b: { image: a, port: 1 } } }',
      "docker.services.b and docker.services.a would both answer at b-${SERVICE_DOMAIN}/; give one of them another 'path' or 'domain'",
    ],
  ],
  invalid_domain: [
    [
      'docker: { services: { web: { image: a, port: 1, domain: »"${HOME}.a.dev" } } }',
      "docker.services.web.domain can hold only ${SERVICE_DOMAIN}, ${SERVICE_ENV_IDENTIFIER}, ${SERVICE_ENV_TYPE} and ${SERVICE_ENV_BRANCH}, got '${HOME}'",
    ],
    [
      'docker: { services: { web: { image: a, port: 1, domain: »"*.a.dev" } } }',
      "docker.services.web.domain cannot hold a wildcard, got '*.a.dev'",
    ],
  ],
  health_without_port: [
    [
      'docker: { services: { web: { image: a, »health: /up } } }',
      "docker.services.web has 'health' but no 'port' to ask; add it or remove 'health'",
    ],
    [
      'manual: { deploy: [x], services: { web: { root: a, »health: { path: /up } } } }',
      "manual.services.web has 'health' but no 'port' or 'socket' to ask; add it or remove 'health'",
    ],
  ],
  shared_volume: [
    [
      'docker: { volumes: [data], services: { web: { image: a, port: 1, »replicas: 3, volumes: ["data:/d"] } } }',
      'docker.services.web has 3 replicas that all write to volume data; its program must share files with its other processes',
    ],
  ],
  database_address: [
    [
      'docker: { services: { web: { build: ., port: 80 }, db: { image: "docker.io/bitnami/postgresql:16", »port: 5432 } } }',
      "docker.services.db is a database with an address, so everyone can reach it; add 'public: false', and other services still reach it by its name",
    ],
  ],
  reserved_key: [
    [
      'manual: { deploy: [{ run: x, env: { »SERVICE_DOMAIN: a } }] }',
      "variable name 'SERVICE_DOMAIN' is set by Berth and cannot be given here; choose another name",
    ],
    [
      'docker: { services: { web: { build: { args: { »BERTH_A: b } } } } }',
      "variable name 'BERTH_A' is set by Berth and cannot be given here; choose another name",
    ],
  ],
  argument_in_image: [
    [
      'docker: { services: { web: { build: { args: { TOKEN: »"${NPM_TOKEN}", REAL: "$${NPM_TOKEN}" } } } } }',
      "docker.services.web.build.args.TOKEN puts the value of NPM_TOKEN into the image, whose history shows it; name a secret in 'build.secrets' instead",
    ],
  ],
  deprecated_result: [
    [
      'manual: { deploy: [x] }\nactions: { a: { run: x, »result: file } }',
      "'result: file' was replaced by artifacts.paths in v1.13.0; this action stays disabled until migrated",
    ],
    [
      'manual: { deploy: [x] }\nactions: { a: { run: x, artifacts: { paths: [a] }, »result: file } }',
      "'result: file' was replaced by artifacts.paths in v1.13.0; remove 'result' to enable it",
    ],
  ],
  no_default_service: [
    [
      'docker: { »services: { a: { image: a, port: 1 }, b: { image: a, port: 1 } } }',
      "no service of docker is the default one, so the environment's own domain answers 404; name one 'web' or give one 'default: true'",
    ],
    [
      'manual: { deploy: [x], »services: { web: { port: 1, domain: a.example.com } } }',
      "manual.services.web is the default service but has its own 'domain', so the environment's own domain answers 404",
    ],
  ],
  looks_like_secret: [
    [
      'manual: { deploy: [x], env: { API_TOKEN: »abc } }',
      'manual.env.API_TOKEN looks like a secret, and everybody who can read the repository can read it; make it a custom variable of the environment',
    ],
    [
      'docker: { services: { web: { build: { args: { npm_password: »12 } } } } }',
      'docker.services.web.build.args.npm_password looks like a secret, and everybody who can read the repository can read it; make it a custom variable of the environment',
    ],
  ],
}

const all = Object.entries(CASES).flatMap(([code, cases]) =>
  cases.map(([source, message]) => ({ code, source, message })),
)

describe('problems', () => {
  it('have a file for each code', () => {
    expect(Object.keys(CASES).toSorted()).toEqual([...ERROR_CODES, ...WARNING_CODES].toSorted())
  })

  it.each(all)('$code: $message', ({ code, source, message }) => {
    const offset = source.indexOf('»')
    const before = source.slice(0, offset).split('\n')
    const { file, problems } = readServiceFile(source.replace('»', ''))
    expect(problems.map((problem) => [problem.code, problem.message])).toEqual([[code, message]])
    const { line, column, severity } = problems[0] ?? {}
    expect([line, column]).toEqual([before.length, (before.at(-1)?.length ?? 0) + 1])
    expect(severity).toBe((WARNING_CODES as readonly string[]).includes(code) ? 'warning' : 'error')
    expect(file === undefined).toBe(severity === 'error')
  })

  it('are shown where content is merged or repeated, not where it was written', () => {
    const source = [
      'x-a: &a { image: a, typo: 1 }',
      'x-b: &b { path: up }',
      'docker:',
      '  services:',
      '    web: { <<: *a, port: 80, health: *b }',
      '    api: { <<: [*a], port: 81 }',
    ].join('\n')
    const { problems } = readServiceFile(source)
    expect(problems.map(({ line, column, path }) => `${line}:${column} ${path}`)).toEqual([
      '5:16 docker.services.web.typo',
      '5:38 docker.services.web.health.path',
      '6:17 docker.services.api.typo',
    ])
  })

  it('are kept in a bounded number, errors before warnings', () => {
    const secrets = Array.from({ length: 150 }, (_, index) => `a${index}_KEY: b`).join(', ')
    const unknown = Array.from({ length: 190 }, (_, index) => `k${index}: 1`).join(', ')
    const source = `manual: { deploy: [x], env: { ${secrets} }, ${unknown} }`
    const { problems } = readServiceFile(source)
    expect(problems).toHaveLength(200)
    expect(problems.filter(({ severity }) => severity === 'error')).toHaveLength(190)
  })

  it('come all at once, in the order of the file', () => {
    const source =
      'docker: { services: { web: { prot: 80, domain: x } } }\nactions: { A: { run: [] } }'
    const { problems } = readServiceFile(source)
    expect(problems.map(({ code }) => code)).toEqual([
      'missing_key',
      'unknown_key',
      'invalid_domain',
      'invalid_name',
      'invalid_type',
    ])
  })
})
