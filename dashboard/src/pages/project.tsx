// Placeholder of the scaffold.
import { Page } from '../components/page.tsx'

export function ProjectEnvironments() {
  return <Page title="ProjectEnvironments">…</Page>
}
