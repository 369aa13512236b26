import type { Builder } from '@grafana/grafana-foundation-sdk/cog';
import {
  BigValueColorMode,
  BigValueGraphMode,
  BigValueTextMode,
  GraphThresholdsStyleConfigBuilder,
  GraphThresholdsStyleMode,
  LegendDisplayMode,
  LegendPlacement,
  ReduceDataOptionsBuilder,
  SortOrder,
  StackingConfigBuilder,
  StackingMode,
  TooltipDisplayMode,
  VisibilityMode,
  VizLegendOptionsBuilder,
  VizTooltipOptionsBuilder,
} from '@grafana/grafana-foundation-sdk/common';
import {
  MappingType,
  ThresholdsConfigBuilder,
  ThresholdsMode,
} from '@grafana/grafana-foundation-sdk/dashboard';
import type { Panel, Threshold, ValueMapping } from '@grafana/grafana-foundation-sdk/dashboard';
import { DataqueryBuilder } from '@grafana/grafana-foundation-sdk/prometheus';
import { PanelBuilder as Stat } from '@grafana/grafana-foundation-sdk/stat';
import { PanelBuilder as StateTimeline } from '@grafana/grafana-foundation-sdk/statetimeline';
import { PanelBuilder as TimeSeries } from '@grafana/grafana-foundation-sdk/timeseries';
import type { Query } from './queries.js';

/** The data source that is selected at the top of the dashboard. */
export const datasource = { type: 'prometheus', uid: '${datasource}' };

const HEIGHT = 8;
const STAT_HEIGHT = 4;

/** What panels have in common. */
interface Common {
  readonly title: string;
  /** What the panel shows, and which values are good. */
  readonly text: string;
  /** A unit of Grafana, such as `s`, `bytes`, `ops`. Default: plain numbers. */
  readonly unit?: string;
  /** In columns; a row has 24. */
  readonly width?: number;
  readonly queries: readonly Query[];
  /** The values at which it turns yellow and red. `null`: never yellow. */
  readonly limits?: readonly [warning: number | null, bad: number];
  /** Low values are bad: the limits are lower limits. */
  readonly isLowBad?: boolean;
}

/** A row of the dashboard. */
export interface Row {
  readonly title: string;
  readonly panels: readonly Builder<Panel>[];
}

/** Names and colours for the values of a panel. */
export type Names = Readonly<Record<string, readonly [text: string, colour: string]>>;

/** The current number of each instance. */
export function number(
  panel: Common & { readonly names?: Names; readonly isName?: boolean },
): Builder<Panel> {
  const builder = new Stat()
    .title(panel.title)
    .description(panel.text)
    .datasource(datasource)
    .height(STAT_HEIGHT)
    .span(panel.width ?? 3)
    .unit(panel.unit ?? 'locale')
    .targets(queriesOf(panel, true))
    .thresholds(thresholds(panel))
    .mappings(mappings(panel.names))
    .noValue('not known')
    .reduceOptions(new ReduceDataOptionsBuilder().calcs(['lastNotNull']))
    .graphMode(BigValueGraphMode.None)
    .colorMode(BigValueColorMode.Background);
  return panel.isName === true ? builder.textMode(BigValueTextMode.Name) : builder;
}

/** Lines over time. `isStacked`: parts of a whole. */
export function lines(
  panel: Common & { readonly isStacked?: boolean; readonly max?: number },
): Builder<Panel> {
  const builder = new TimeSeries()
    .title(panel.title)
    .description(panel.text)
    .datasource(datasource)
    .height(HEIGHT)
    .span(panel.width ?? 8)
    .unit(panel.unit ?? 'short')
    .targets(queriesOf(panel, false))
    .fillOpacity(panel.isStacked === true ? 40 : 0)
    .showPoints(VisibilityMode.Never)
    .tooltip(new VizTooltipOptionsBuilder().mode(TooltipDisplayMode.Multi).sort(SortOrder.Descending))
    .legend(
      new VizLegendOptionsBuilder()
        .displayMode(LegendDisplayMode.Table)
        .placement(LegendPlacement.Bottom)
        .showLegend(true)
        .calcs(['lastNotNull', 'max']),
    );
  if (panel.isStacked === true) builder.stacking(new StackingConfigBuilder().mode(StackingMode.Normal));
  if (panel.max !== undefined) builder.max(panel.max);
  if (panel.limits === undefined) return builder;
  return builder
    .thresholds(thresholds(panel))
    .thresholdsStyle(new GraphThresholdsStyleConfigBuilder().mode(GraphThresholdsStyleMode.Dashed));
}

/** States over time; `names` names the state for each value. */
export function states(panel: Common & { readonly names: Names }): Builder<Panel> {
  return new StateTimeline()
    .title(panel.title)
    .description(panel.text)
    .datasource(datasource)
    .height(HEIGHT)
    .span(panel.width ?? 12)
    .targets(queriesOf(panel, false))
    .mappings(mappings(panel.names))
    .mergeValues(true)
    .legend(
      new VizLegendOptionsBuilder()
        .displayMode(LegendDisplayMode.List)
        .placement(LegendPlacement.Bottom)
        .showLegend(true),
    );
}

function queriesOf({ queries }: Common, isInstant: boolean): DataqueryBuilder[] {
  return queries.map(([expr, legend], index) => {
    const query = new DataqueryBuilder()
      .refId(String.fromCharCode('A'.charCodeAt(0) + index))
      .datasource(datasource)
      .expr(expr)
      .legendFormat(legend);
    return isInstant ? query.instant() : query.range();
  });
}

function thresholds({ limits, isLowBad = false }: Common): ThresholdsConfigBuilder {
  const steps = stepsOf(limits, isLowBad);
  return new ThresholdsConfigBuilder().mode(ThresholdsMode.Absolute).steps(steps);
}

function stepsOf(limits: Common['limits'], isLowBad: boolean): Threshold[] {
  if (limits === undefined) return [{ value: null, color: 'blue' }];
  const [warning, bad] = limits;
  if (!isLowBad) {
    const above = warning === null ? [] : [{ value: warning, color: 'yellow' }];
    return [{ value: null, color: 'green' }, ...above, { value: bad, color: 'red' }];
  }
  const below = warning === null ? [] : [{ value: bad, color: 'yellow' }];
  return [{ value: null, color: 'red' }, ...below, { value: warning ?? bad, color: 'green' }];
}

function mappings(names: Names = {}): ValueMapping[] {
  const options = Object.fromEntries(
    Object.entries(names).map(([value, [text, color]], index) => [value, { text, color, index }]),
  );
  return Object.keys(options).length === 0 ? [] : [{ type: MappingType.ValueToText, options }];
}
