pub struct Scenario;
