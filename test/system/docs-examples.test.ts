// Every .service.yml in the documentation is deployed as it is shown there, in one repository that has the files and
// programs that the examples name.
import { cpSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Environment } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { callEngine } from '../../scripts/docker-engine.ts'
import { deployed } from '../fixtures/docker/docker-fixture.ts'
import { makeNodeImage, makePostgresImage, POSTGRES_IMAGE } from '../fixtures/docker/images.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { Fixture } from '../fixtures/server/installation.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const engine = dockerEngine()

interface Example {
  page: string
  number: number
  recipe: 'docker' | 'manual'
  source: string
}

function listExamples(): Example[] {
  const pages = ['README.md', ...globSync('docs/**/*.md', { cwd: root }).sort()]
  return pages.flatMap((page) => {
    const text = readFileSync(join(root, page), 'utf8')
    const blocks = [...text.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, source = '']) => source)
    return blocks
      .filter((source) => /^(docker|manual|actions):/m.test(source))
      .map((source, index) => {
        const recipe = /^docker:/m.test(source) ? ('docker' as const) : ('manual' as const)
        const hasSection = /^(docker|manual):/m.test(source)
        const whole = hasSection ? source : `${source}manual: { deploy: ["true"] }\n`
        return { page, number: index + 1, recipe, source: whole }
      })
  })
}

const examples = listExamples()

test('the documentation has examples for both recipes', () => {
  expect(new Set(examples.map(({ recipe }) => recipe))).toEqual(new Set(['docker', 'manual']))
})

describe.skipIf(!engine || missing('caddy') || missing('postgres'))('examples', () => {
  let fixture: Fixture
  const projects: Partial<Record<Example['recipe'], number>> = {}

  beforeAll(async () => {
    if (!engine) return
    await makeNodeImage(engine.socket)
    await makePostgresImage(engine.socket)
    await callEngine(engine.socket, 'POST', `/images/${POSTGRES_IMAGE}/tag?repo=postgres&tag=18`)
    fixture = await Fixture.open({ docker: engine })
    const files = join(root, 'test/fixtures/applications/docs-examples')
    for (const recipe of ['docker', 'manual'] as const) {
      cpSync(files, join(fixture.dir, 'repositories', recipe), { recursive: true })
      const { id } = await fixture.project(recipe, fixture.repository(recipe, {}), recipe)
      projects[recipe] = id
    }
  })
  afterAll(() => fixture?.close())

  test.each(examples)('$page, $number ($recipe)', async ({ page, number, recipe, source }) => {
    fixture.repository(recipe, { '.service.yml': source })
    const identifier = `${page.replaceAll(/[^a-z]+/gi, '-').toLowerCase()}-${number}`.slice(-30)
    const environment = await fixture.post<Environment>(
      `/api/projects/${projects[recipe]}/environments`,
      {
        identifier: identifier.replace(/^-+/, ''),
        branch: 'main',
        auto_deploy: false,
        variables: {
          NPM_TOKEN: 'for the example with a build secret',
          POSTGRES_PASSWORD: 'for the examples with a database',
        },
      },
    )
    const task = await deployed(fixture, environment.id)
    expect(task.status).toBe('succeeded')
    await fixture.call('DELETE', `/api/environments/${environment.id}`)
  })
})
