// Applications whose .service.yml is what `berth config init` wrote: a static site, Node.js in two stages, and an image
// with one program and no shell. Each is redeployed under visitors that never retry, and removed without a trace.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeNodeImage } from '../../fixtures/docker/images.ts'
import { dockerEngine, missing } from '../../fixtures/platform/components.ts'
import { Fixture } from '../../fixtures/server/installation.ts'
import { Application, NOTHING } from './application.ts'

const engine = dockerEngine()

const SHAPES = [
  { name: 'static', recipe: 'manual', file: 'public/index.html', shows: '' },
  { name: 'node-stages', recipe: 'docker', file: 'version', shows: 'without the sources' },
  { name: 'distroless', recipe: 'docker', file: 'version', shows: '' },
] as const

describe.skipIf(!engine || missing('caddy'))('applications by config init alone', () => {
  let fixture: Fixture
  beforeAll(async () => {
    if (!engine) return
    await makeNodeImage(engine.socket)
    fixture = await Fixture.open({ docker: engine })
  })
  afterAll(() => fixture?.close())

  test.each(SHAPES)('$name', async ({ name, recipe, file, shows }) => {
    const application = await Application.open(fixture, name, { recipe })
    await application.deploy()
    const first = await application.ask()
    expect([first.status, first.text]).toEqual([200, expect.stringContaining('version one')])
    expect(first.text).toContain(shows)

    application.change(file, 'two')
    const redeploy = async (): Promise<void> => void (await application.deploy())
    const visits = await application.visitWhile(redeploy, (text) => /version (one|two)/.test(text))
    expect(visits.failed).toEqual([])
    expect(visits.good).toBeGreaterThan(0)
    expect((await application.ask()).text).toContain('version two')

    expect((await application.destroy()).status).toBe('succeeded')
    expect((await application.ask().catch(() => ({ status: 0 }))).status).not.toBe(200)
    expect(await fixture.owned()).toEqual(NOTHING)
  })
})
