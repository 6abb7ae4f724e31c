// Placeholder of the scaffold.
import { Page } from '../components/page.tsx'

export function EnvironmentOverview() {
  return <Page title="EnvironmentOverview">…</Page>
}
