// A short reference of .service.yml, also without login. Editors read the schema itself.
import { Page, Section } from '../components/page.tsx'

const DOCKER = `docker:
  services:
    web:
      build: .
      port: 3000
      health: /up
      release: node dist/migrate.js`

const MANUAL = `manual:
  deploy:
    - npm ci
    - npm run build
  services:
    web:
      port: auto
      run: exec node dist/server.js # listens on $PORT`

const ACTIONS = `actions:
  export-orders:
    title: Export orders
    run: npm run export
    artifacts: [exports/*.csv]`

export function ServiceFile() {
  return (
    <main>
      <Page title=".service.yml">
        <p>
          The file is in the root of the repository. Berth reads it from the deployed commit. Check
          one with <code>berth config validate</code>; editors read{' '}
          <a href="/schemas/service.v1.json">the schema</a>.
        </p>
        <Section title="With containers">
          <pre>{DOCKER}</pre>
        </Section>
        <Section title="With commands of your own">
          <pre>{MANUAL}</pre>
        </Section>
        <Section title="Actions">
          <pre>{ACTIONS}</pre>
        </Section>
        <p className="muted">
          Always set: SERVICE_DOMAIN, SERVICE_ENV_IDENTIFIER, SERVICE_ENV_TYPE, SERVICE_ENV_BRANCH,
          and the variables of the environment.
        </p>
      </Page>
    </main>
  )
}
