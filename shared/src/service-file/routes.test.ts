// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of the file, not of JavaScript
import { describe, expect, it } from 'vitest'
import { domainFault, expandDomain, hostLabel, normalizeHost } from './domain.ts'
import { type EnvironmentFacts, portVariable, readServiceFile, routes } from './index.ts'
import type { ServiceFile } from './service-file.ts'

const FACTS: EnvironmentFacts = {
  domain: 'pr-42.shop.example.com',
  identifier: 'pr-42',
  type: 'pull_request',
  branch: 'feature/Cart_2',
}

function read(source: string): ServiceFile {
  const { file, problems } = readServiceFile(source)
  expect(problems.filter(({ severity }) => severity === 'error')).toEqual([])
  return file as ServiceFile
}

/** `{ web: 'port: 80' }` for one recipe, as lines `service host path`. */
function table(recipe: 'docker' | 'manual', services: Record<string, string>, facts = FACTS) {
  const written = Object.entries(services).map(([name, keys]) =>
    recipe === 'docker' ? `${name}: { image: a, ${keys} }` : `${name}: { ${keys} }`,
  )
  const map = `{ ${written.join(', ')} }`
  const source =
    recipe === 'docker'
      ? `docker: { services: ${map} }`
      : `manual: { deploy: [x], services: ${map} }`
  const found = routes(read(source), recipe, facts)
  return {
    ...found,
    lines: found.routes.map(({ service, host, path }) => `${service} ${host} ${path}`),
  }
}

const ENV = 'pr-42.shop.example.com'

describe('hosts', () => {
  it('a service with a domain has that domain', () => {
    const { lines, routes } = table('docker', {
      web: 'port: 80',
      docs: 'port: 80, domain: "Docs-${SERVICE_ENV_IDENTIFIER}.Acme.dev"',
    })
    expect(lines).toEqual([`web ${ENV} /`, 'docs docs-pr-42.acme.dev /'])
    expect(routes.map(({ isCustom, isDefault }) => [isCustom, isDefault])).toEqual([
      [false, true],
      [true, false],
    ])
  })

  it("the default service has the environment's domain, any other one its own label", () => {
    expect(table('docker', { web: 'port: 80', api: 'port: 81' }).lines).toEqual([
      `web ${ENV} /`,
      `api api-${ENV} /`,
    ])
  })

  it("a service with a path and no domain has the environment's domain", () => {
    expect(table('docker', { web: 'port: 80', api: 'port: 81, path: /api/' }).lines).toEqual([
      `web ${ENV} /`,
      `api ${ENV} /api`,
    ])
  })

  it('a service without port is not routed', () => {
    expect(table('docker', { web: 'port: 80', db: 'env: { A: b }' }).lines).toEqual([
      `web ${ENV} /`,
    ])
  })

  it('manual: port, socket and root are routed, a process alone is not', () => {
    const { routes, lines } = table('manual', {
      web: 'port: auto, run: x',
      app: 'socket: a.sock',
      files: 'root: public, auth: false',
      fixed: 'port: 7700, path: /search',
      queue: 'run: x',
    })
    expect(lines).toEqual([
      `web ${ENV} /`,
      `app app-${ENV} /`,
      `files files-${ENV} /`,
      `fixed ${ENV} /search`,
    ])
    expect(routes.map(({ target, auth }) => [target, auth])).toEqual([
      [{ kind: 'auto' }, true],
      [{ kind: 'socket', path: 'a.sock' }, true],
      [{ kind: 'root', path: 'public' }, false],
      [{ kind: 'port', port: 7700 }, true],
    ])
  })

  it('a section that is not there routes nothing', () => {
    const file = read('manual: { deploy: [x] }')
    expect(routes(file, 'docker', FACTS)).toEqual({
      routes: [],
      defaultService: null,
      problems: [],
    })
  })
})

describe('the default service', () => {
  const chosen = (services: Record<string, string>) => table('docker', services).defaultService

  it('is the one that says so, else web, else the only routed one', () => {
    expect(chosen({ web: 'port: 1', api: 'port: 1, default: true' })).toBe('api')
    expect(chosen({ api: 'port: 1', web: 'port: 1' })).toBe('web')
    expect(chosen({ api: 'port: 1', db: 'env: {}' })).toBe('api')
    expect(chosen({ api: 'port: 1', web: 'env: {}', docs: 'port: 1' })).toBeNull()
    expect(chosen({ db: 'env: {}' })).toBeNull()
  })

  it('with default: false is chosen like any other', () => {
    expect(chosen({ web: 'port: 1, default: false', api: 'port: 1' })).toBe('web')
  })
})

describe('problems that only the values of an environment show', () => {
  it('two services at one address', () => {
    const { problems, lines } = table('docker', {
      web: 'port: 80',
      a: 'port: 80, domain: "x-${SERVICE_ENV_IDENTIFIER}.acme.dev"',
      b: 'port: 80, domain: X-PR-42.acme.dev',
    })
    expect(lines).toHaveLength(2)
    expect(problems).toEqual([
      {
        file: '.service.yml',
        line: 1,
        column: 160,
        end_line: 1,
        end_column: 176,
        path: 'docker.services.b',
        code: 'duplicate_route',
        severity: 'error',
        message:
          "docker.services.b and docker.services.a would both answer at x-pr-42.acme.dev/; give one of them another 'path' or 'domain'",
        suggestion: null,
      },
    ])
  })

  it('a label over 63 characters, with the service and the length', () => {
    const name = 'a'.repeat(39)
    const facts = (length: number) => ({ ...FACTS, domain: `${'e'.repeat(length)}.example.com` })
    const services = { web: 'port: 1', [name]: 'port: 1' }
    expect(table('docker', services, facts(23)).problems).toEqual([])
    expect(table('docker', services, facts(24)).problems[0]).toMatchObject({
      code: 'invalid_domain',
      path: `docker.services.${name}`,
      message: expect.stringMatching(/of 64 characters; at most 63 .* shorten the service's name/),
    })
  })

  it('a branch that leaves nothing of a label', () => {
    const services = { web: 'port: 1, domain: "a-${SERVICE_ENV_BRANCH}.acme.dev"' }
    expect(table('docker', services, { ...FACTS, branch: '///' }).problems[0]?.message).toBe(
      "docker.services.web.domain has the part 'a-'; parts hold letters, digits and dashes, and neither begin nor end with a dash (a-.acme.dev)",
    )
  })
})

describe('variables in a domain', () => {
  it('are the four, made parts of a host name', () => {
    const domain =
      '${SERVICE_ENV_BRANCH}.${SERVICE_ENV_TYPE}.${SERVICE_ENV_IDENTIFIER}.${SERVICE_DOMAIN}'
    expect(expandDomain(domain, FACTS)).toBe(`feature-cart-2.pull-request.pr-42.${ENV}`)
  })

  it('make a label of every branch', () => {
    expect(hostLabel('Feature//Über_Cart!')).toBe('feature-ber-cart')
    expect(hostLabel('-a-')).toBe('a')
    expect(hostLabel('a'.repeat(50))).toBe('a'.repeat(40))
    expect(hostLabel(`${'a'.repeat(39)}-b`)).toBe('a'.repeat(39))
    expect(hostLabel('')).toBe('')
  })
})

describe('host names', () => {
  it('are compared in lower case, without trailing dot, as punycode', () => {
    const names = ['Docs.Acme.DEV', 'docs.acme.dev.', 'BÜCHER.example.', 'xn--bcher-kva.example']
    expect(names.map(normalizeHost)).toEqual([
      'docs.acme.dev',
      'docs.acme.dev',
      'xn--bcher-kva.example',
      'xn--bcher-kva.example',
    ])
  })

  it.each([
    ['https://a.dev/x', "without 'https://'", 'a.dev'],
    ['a.dev:8080', 'without a port', 'a.dev'],
    ['a.dev.', 'must not end with a dot', 'a.dev'],
    ['bücher.example', 'punycode', 'xn--bcher-kva.example'],
    ['10.0.0.1', 'not an IP address', undefined],
    ['[::1]', 'not an IP address', undefined],
    ['::1', 'not an IP address', undefined],
    ['*.a.dev', 'wildcard', undefined],
    ['localhost', 'must be a host name such as', undefined],
    ['a..dev', 'must be a host name such as', undefined],
    ['a_b.dev', 'must be a host name such as', undefined],
    ['-a.dev', 'neither begin nor end with a dash', undefined],
    ['$HOME.dev', "got '$HOME'", undefined],
    ['${SERVICE_DOMAIN', "got '${SERVICE_DOMAIN'", undefined],
    ['${service_domain}', "got '${service_domain}'", undefined],
    [`${'a'.repeat(64)}.dev`, 'of 64 characters', undefined],
    [`${'a.'.repeat(127)}a`, 'has 255 characters', undefined],
  ])('%s is refused: %s', (domain, says, suggestion) => {
    const fault = domainFault(domain)
    expect(fault?.says).toContain(says)
    expect(fault?.code).toBe('invalid_domain')
    expect(fault?.suggestion).toBe(suggestion)
  })

  it.each(['a.dev', '${SERVICE_DOMAIN}', 'admin.${SERVICE_DOMAIN}', 'x${SERVICE_ENV_TYPE}y.A.dev'])(
    '%s is accepted',
    (domain) => expect(domainFault(domain)).toBeUndefined(),
  )
})

it('the variable of a port is in capitals', () => {
  expect(portVariable('queue-ui')).toBe('PORT_QUEUE_UI')
})
